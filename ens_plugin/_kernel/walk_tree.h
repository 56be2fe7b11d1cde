/* The walk of one tree, for one type of features.  Included once for each, with NODE, REAL and NAMED() defined. */

typedef struct {
    REAL threshold;   /* the largest value that goes to the first child; of a set of categories, its number */
    uint32_t feature; /* column, and the two flags of walk.h */
    int32_t first;    /* first child, the second is next to it; a leaf points at itself */
} NODE;

static int32_t NAMED(set_number)(const NODE *node) {
    int32_t number;
    memcpy(&number, &node->threshold, sizeof number);
    return number;
}

static void NAMED(put_node)(NODE *node, double threshold, uint32_t feature, int32_t first) {
    node->threshold = NAMED(rounded_down)(threshold);
    node->feature = feature;
    node->first = first;
}

static void NAMED(put_set)(NODE *node, int32_t number, uint32_t feature, int32_t first) {
    node->threshold = 0;
    memcpy(&node->threshold, &number, sizeof number);
    node->feature = feature;
    node->first = first;
}

static int NAMED(has_missing)(const REAL *values, int64_t n_values) {
    int64_t n_missing = 0;
    for (int64_t i = 0; i < n_values; i++) n_missing += values[i] != values[i];
    return n_missing > 0;
}

/* Returns the steps until rows at a leaf are sorted out: the levels of a shallow tree, after which all are at one. */
static int NAMED(count_steps)(const NODE *tree) {
    int n_levels = 0;
    int32_t level_end = 1, n_found = 1;
    for (int32_t place = 0; place < n_found; place++) {
        if (place == level_end) {
            if (++n_levels > MOST_LEVELS) return STEPS;
            level_end = n_found;
        }
        n_found += tree[place].first == place ? 0 : 2;
    }
    return n_levels;
}

/* Rows step together, so that the processor reads the nodes of many at a time, and leave when they are at a leaf. */
#define WALK_BLOCKS(GOES_SECOND)                                                                       \
    const int n_steps = NAMED(count_steps)(tree);                                                      \
    for (int64_t next = 0; next < n_rows;) {                                                           \
        int32_t at[BLOCK], row[BLOCK];                                                                 \
        int n_walking = 0;                                                                             \
        for (; next < n_rows && n_walking < BLOCK; next++) {                                           \
            row[n_walking] = (int32_t)next;                                                            \
            reached[next] = 0; /* should a row be wanted later, by another thread */                   \
            n_walking += wanted == NULL || wanted[next];                                               \
        }                                                                                              \
        for (int i = 0; i < n_walking; i++) at[i] = 0;                                                 \
        while (n_walking) {                                                                            \
            for (int step = 0; step < n_steps; step++)                                                 \
                for (int i = 0; i < n_walking; i++) {                                                  \
                    const NODE *node = tree + at[i];                                                   \
                    REAL x = rows[row[i] * n_features + (node->feature & FEATURE)];                    \
                    at[i] = node->first + (GOES_SECOND);                                               \
                }                                                                                      \
            int n_left = 0;                                                                            \
            for (int i = 0; i < n_walking; i++) {                                                      \
                int32_t here = at[i], own = row[i];                                                    \
                reached[own] = here;                                                                   \
                at[n_left] = here;                                                                     \
                row[n_left] = own;                                                                     \
                n_left += tree[here].first != here;                                                    \
            }                                                                                          \
            n_walking = n_left;                                                                        \
        }                                                                                              \
    }

static void NAMED(walk_numbers)(const REAL *rows, int64_t n_rows, int64_t n_features, const NODE *tree,
                                const uint8_t *wanted, int32_t *reached) {
    /* Not !(x <= ...): a value that becomes NaN after all were looked at stays at its leaf. */
    WALK_BLOCKS(x > node->threshold)
}

static void NAMED(walk_missing)(const REAL *rows, int64_t n_rows, int64_t n_features, const NODE *tree,
                                const uint8_t *wanted, int32_t *reached) {
    WALK_BLOCKS(!((x <= node->threshold) | ((x != x) & (int)(node->feature >> 31))))
}

static int NAMED(goes_second)(const NODE *node, REAL x, const Sets *sets) {
    if (x != x) return !(node->feature >> 31);
    if (!(node->feature & IS_SET)) return !(x <= node->threshold);
    int32_t number = NAMED(set_number)(node);
    const int64_t start = sets->starts[number], n_bits = 32 * (sets->starts[number + 1] - start);
    /* A set may be empty, and numbers between -1 and 0 are cut off to 0. */
    if (!(n_bits && x >= sets->least && x < (REAL)n_bits)) return 1;
    const int64_t bit = (int64_t)x;
    return !(sets->words[start + bit / 32] >> (bit % 32) & 1u);
}

static void NAMED(walk_sets)(const REAL *rows, int64_t n_rows, int64_t n_features, const NODE *tree,
                             const uint8_t *wanted, int32_t *reached, const Sets *sets) {
    WALK_BLOCKS(NAMED(goes_second)(node, x, sets))
}

static void NAMED(walk)(const Rows *rows, const Forest *forest, const Output *output, int32_t *reached) {
    const REAL *values = (const REAL *)rows->values;
    const int64_t width = rows->n_features;
    const int64_t height = tile_height(width * (int64_t)sizeof(REAL), TILE_BYTES);
    for (int64_t start = 0; start < rows->n_rows; start += height) {
        const int64_t n_rows = rows->n_rows - start < height ? rows->n_rows - start : height;
        const REAL *tile = values + start * width;
        const int is_missing = forest->is_endless || NAMED(has_missing)(tile, n_rows * width);
        for (int64_t tree = 0; tree < forest->n_trees; tree++) {
            const NODE *nodes = (const NODE *)forest->nodes + forest->roots[tree];
            const uint8_t *wanted = rows->wanted == NULL ? NULL : rows->wanted + tree * rows->n_rows + start;
            if (forest->sets.starts != NULL)
                NAMED(walk_sets)(tile, n_rows, width, nodes, wanted, reached, &forest->sets);
            else if (is_missing)
                NAMED(walk_missing)(tile, n_rows, width, nodes, wanted, reached);
            else
                NAMED(walk_numbers)(tile, n_rows, width, nodes, wanted, reached);
            write_output(output, forest->roots[tree], tree * rows->n_rows + start, n_rows, wanted, reached);
        }
    }
}

static int64_t NAMED(put_tree)(const Links *links, const Link *of_nodes, NODE *nodes, int32_t *order) {
    const int64_t n_nodes = links->n_nodes;
    int64_t n_found = 1;
    order[0] = 0;
    for (int64_t place = 0; place < n_found; place++) {
        const Link own = of_nodes[order[place]];
        const int64_t is_split = own.is_split;
        if (own.is_wrong) return -1;
        NAMED(put_node)(nodes + place, own.threshold, own.feature, (int32_t)(place + is_split * (n_found - place)));
        if (links->set != NULL && is_split) {
            const int32_t set = links->set[order[place]];
            if (set >= links->n_sets) return -1;
            if (set >= 0) NAMED(put_set)(nodes + place, set, own.feature | IS_SET, (int32_t)n_found);
        }
        if (n_found + 2 <= n_nodes) {
            order[n_found] = own.left;
            order[n_found + 1] = own.right;
        } else if (is_split)
            return -1;
        n_found += 2 * is_split;
    }
    for (int64_t place = n_found; place < n_nodes; place++) {
        NAMED(put_node)(nodes + place, 0, 0, NO_NODE);
        order[place] = 0;
    }
    return n_found;
}

#undef WALK_BLOCKS
