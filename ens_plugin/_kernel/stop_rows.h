/* Trees in turn for one row at a time, until the sum of their values settles it.  Included once for each type of
 * features, with NODE, REAL and NAMED() defined. */

/* Trees step together, as rows do in walk_tree.h, until all are at a leaf, which points at itself. */
#define STEP_TREES(GOES_SECOND)                                                 \
    for (int is_moving = 1; is_moving;) {                                       \
        is_moving = 0;                                                          \
        for (int i = 0; i < n_trees; i++) {                                     \
            const NODE *node = nodes + roots[i] + at[i];                        \
            const REAL x = row[node->feature & FEATURE];                        \
            const int32_t next = node->first + (GOES_SECOND);                   \
            is_moving |= next != at[i];                                         \
            at[i] = next;                                                       \
        }                                                                       \
    }

static void NAMED(reach_leaves)(const REAL *row, const NODE *nodes, const int64_t *roots, int n_trees,
                                const Sets *sets, int32_t *at) {
    for (int i = 0; i < n_trees; i++) at[i] = 0;
    if (sets->starts != NULL)
        STEP_TREES(NAMED(goes_second)(node, x, sets))
    else
        STEP_TREES(!((x <= node->threshold) | ((x != x) & (int)(node->feature >> 31))))
}

static void NAMED(stop_rows)(const Rows *rows, const Forest *forest, const Stops *stops, double *totals,
                             int64_t *queries) {
    const NODE *nodes = (const NODE *)forest->nodes;
    int32_t at[BLOCK];
    for (int64_t own = 0; own < rows->n_rows; own++) {
        const REAL *row = (const REAL *)rows->values + own * rows->n_features;
        double total = 0.0;
        int64_t done = 0;
        for (int64_t place = 0; place < stops->n_checkpoints; place++) {
            const int64_t checkpoint = stops->checkpoints[place];
            while (done < checkpoint) {
                const int n_trees = checkpoint - done < BLOCK ? (int)(checkpoint - done) : BLOCK;
                const int64_t *roots = forest->roots + done;
                NAMED(reach_leaves)(row, nodes, roots, n_trees, &forest->sets, at);
                for (int i = 0; i < n_trees; i++) total += stops->values[roots[i] + at[i]];
                done += n_trees;
            }
            if ((total <= stops->lower[place]) | (total >= stops->upper[place])) break;
        }
        totals[own] = total;
        queries[own] = done;
    }
}

#undef STEP_TREES
