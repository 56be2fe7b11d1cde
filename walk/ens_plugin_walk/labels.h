/* The label of each leaf of a tree whose leaves have one label each.  The probabilities of a node are read up to the one
 * that is 1, and those of inner nodes not at all. */

/* Probabilities that are compared before the first that is 1 is looked for. */
enum { PART = 16 };

static INLINE int64_t certain_label(const double *own, int64_t n_labels) {
    int64_t label = 0;
    for (; label + PART <= n_labels; label += PART) {
        int n_certain = 0;
        for (int i = 0; i < PART; i++) n_certain += own[label + i] == 1.0;
        if (n_certain) break;
    }
    while (label < n_labels && own[label] != 1.0) label++;
    return label;
}

/* Return whether each leaf has a label of probability 1; inner nodes get label 0. */
static int label_leaves(const double *values, const Column *left, int64_t n_nodes, int64_t n_labels, void *labels,
                        int64_t n_bytes) {
    for (int64_t node = 0; node < n_nodes; node++) {
        int64_t label = 0;
        if (whole_number(left, node) < 0) label = certain_label(values + node * n_labels, n_labels);
        if (label == n_labels) return 0;
        if (n_bytes == 1)
            ((uint8_t *)labels)[node] = (uint8_t)label;
        else
            ((uint16_t *)labels)[node] = (uint16_t)label;
    }
    return 1;
}
