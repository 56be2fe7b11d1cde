/* The label of each leaf of a tree whose leaves have one label each.  The probabilities of a node are read up to the one
 * that is 1, and those of inner nodes not at all. */

/* Probabilities that are compared before the first that is 1 is looked for. */
enum { COMPARED = 16 };

static INLINE int64_t certain_label(const double *own, int64_t n_labels) {
    int64_t label = 0;
    for (; label + COMPARED <= n_labels; label += COMPARED) {
        int n_certain = 0;
        for (int i = 0; i < COMPARED; i++) n_certain += own[label + i] == 1.0;
        if (n_certain) break;
    }
    while (label < n_labels && own[label] != 1.0) label++;
    return label;
}

#if defined(__GNUC__)
#define READ_AHEAD(place) __builtin_prefetch(place)
#else
#define READ_AHEAD(place) (void)(place)
#endif

/* Nodes whose leaves are listed together; leaves ahead that are read from memory early, and how many of their numbers:
 * the processor reads on by itself. */
enum { LISTED = 512, AHEAD = 4, MOST_AHEAD = 48, OF_LINE = 8 };

static INLINE void put_label(void *labels, int64_t n_bytes, int64_t node, int64_t label) {
    if (n_bytes == 1)
        ((uint8_t *)labels)[node] = (uint8_t)label;
    else
        ((uint16_t *)labels)[node] = (uint16_t)label;
}

/* Return whether each leaf has a label of probability 1; inner nodes get label 0. */
static int label_leaves(const double *values, const Column *left, int64_t n_nodes, int64_t n_labels, void *labels,
                        int64_t n_bytes) {
    const int64_t n_early = n_labels < MOST_AHEAD ? n_labels : MOST_AHEAD;
    memset(labels, 0, (size_t)(n_nodes * n_bytes));
    for (int64_t start = 0; start < n_nodes; start += LISTED) {
        const int64_t stop = n_nodes - start < LISTED ? n_nodes : start + LISTED;
        int64_t leaves[LISTED], n_leaves = 0;
        for (int64_t node = start; node < stop; node++) {
            leaves[n_leaves] = node;
            n_leaves += whole_number(left, node) < 0;
        }
        for (int64_t i = 0; i < n_leaves; i++) {
            if (i + AHEAD < n_leaves)
                for (int64_t label = 0; label < n_early; label += OF_LINE)
                    READ_AHEAD(values + leaves[i + AHEAD] * n_labels + label);
            const int64_t label = certain_label(values + leaves[i] * n_labels, n_labels);
            if (label == n_labels) return 0;
            put_label(labels, n_bytes, leaves[i], label);
        }
    }
    return 1;
}
