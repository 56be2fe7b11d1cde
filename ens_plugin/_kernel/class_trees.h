/* Sums of margins where each label has trees and bags of its own: of each row, the trees out of whose bags it is form
 * members in their order, as many as the label with the fewest has, at the places of that label's trees. */

typedef struct {
    const double *values;  /* by label, tree and leaf */
    const uint8_t *leaves; /* by label, tree and row */
    const uint8_t *bits;   /* rows in bag, by label and tree, as of np.packbits */
    int64_t n_labels, n_trees, n_rows, n_leaves, n_bytes; /* the last from the bits of one tree to those of the next */
} ClassTrees;

/* Space for WIDTH rows: supports by member, label and row; whether members count; sums; and the rows that have the places
 * of each label. */
typedef struct {
    double *supports, *sums;
    uint8_t *counted;
    uint32_t *placed;
} ClassSpace;

static int make_class_space(const ClassTrees *trees, ClassSpace *space) {
    const size_t n_cells = (size_t)trees->n_labels * WIDTH, n_trees = (size_t)trees->n_trees;
    const size_t n_bytes = n_cells * (n_trees + 1) * sizeof(double) + WIDTH * n_trees + n_cells * sizeof(uint32_t);
    /* What is behind the supports of a row is multiplied by 0, so it must be a number. */
    space->supports = calloc(n_bytes, 1);
    if (space->supports == NULL) return 0;
    space->sums = space->supports + n_cells * n_trees;
    space->placed = (uint32_t *)(space->sums + n_cells);
    space->counted = (uint8_t *)(space->placed + n_cells);
    return 1;
}

/* Return the rows out of a tree's bag, the first of WIDTH highest; of rows that are not there, none are. */
static INLINE uint32_t rows_out(const ClassTrees *trees, int64_t tree, int64_t start) {
    const uint8_t *bytes = trees->bits + tree * trees->n_bytes + start / 8;
    const int64_t n_left = trees->n_rows - start;
    uint32_t in_bag = 0;
    if (n_left >= WIDTH) return ~((uint32_t)bytes[0] << 24 | (uint32_t)bytes[1] << 16 | (uint32_t)bytes[2] << 8 | bytes[3]);
    for (int64_t i = 0; 8 * i < n_left; i++) in_bag |= (uint32_t)bytes[i] << (24 - 8 * i);
    return ~(in_bag | UINT32_MAX >> n_left);
}

#define EACH_ROW(ROW, ROWS) \
    for (uint32_t left = (ROWS), ROW; left && (ROW = WIDTH - 1 - (uint32_t)BITS_BELOW_LOWEST((uint64_t)left), 1); left &= left - 1)

/* Write the supports of the trees that count, and note which rows have fewest of each label; return the most of any. */
static INLINE int64_t queue_supports(const ClassTrees *trees, int64_t start, const ClassSpace *space) {
    const int64_t n_cells = trees->n_labels * WIDTH;
    int64_t end[WIDTH], fewest[WIDTH], of_label[WIDTH], most = 0;
    for (int64_t label = 0; label < trees->n_labels; label++) {
        for (int i = 0; i < WIDTH; i++) end[i] = label * WIDTH + i;
        for (int64_t tree = label * trees->n_trees; tree < (label + 1) * trees->n_trees; tree++) {
            const double *values = trees->values + tree * trees->n_leaves;
            const uint8_t *leaves = trees->leaves + tree * trees->n_rows + start;
            EACH_ROW(row, rows_out(trees, tree, start)) {
                space->supports[end[row]] = values[leaves[row]];
                end[row] += n_cells;
            }
        }
        space->placed[label] = 0;
        for (int i = 0; i < WIDTH; i++) {
            const int64_t n_own = (end[i] - label * WIDTH - i) / n_cells;
            if (label > 0 && n_own >= fewest[i]) continue;
            fewest[i] = n_own;
            of_label[i] = label;
        }
    }
    for (int i = 0; i < WIDTH; i++) {
        space->placed[of_label[i]] |= UINT32_C(1) << (WIDTH - 1 - i);
        most = fewest[i] > most ? fewest[i] : most;
    }
    return most;
}

/* Mark which members of each row count. */
static INLINE void mark_places(const ClassTrees *trees, int64_t start, int64_t most, const ClassSpace *space) {
    int64_t end[WIDTH];
    for (int i = 0; i < WIDTH; i++) end[i] = i;
    memset(space->counted, 0, WIDTH * (size_t)most);
    for (int64_t place = 0; place < trees->n_trees; place++) {
        uint32_t rows = 0;
        for (int64_t label = 0; label < trees->n_labels; label++)
            if (space->placed[label]) rows |= rows_out(trees, label * trees->n_trees + place, start) & space->placed[label];
        EACH_ROW(row, rows) {
            space->counted[end[row]] = 1;
            end[row] += WIDTH;
        }
    }
}

/* The columns of sum_margins in tallies.h, for WIDTH rows. */
static INLINE void sum_class_rows(const ClassTrees *trees, const int64_t *target, int64_t start,
                                  const ClassSpace *space, double *columns) {
    const int64_t n_labels = trees->n_labels, n_cells = n_labels * WIDTH, n_left = trees->n_rows - start;
    const size_t n_own = n_left < WIDTH ? (size_t)n_left : WIDTH;
    const int64_t most = queue_supports(trees, start, space);
    double *all = space->sums;
    int64_t labels[WIDTH] = {0};
    Margins margins = {.found = {{0}}};
    mark_places(trees, start, most, space);
    memcpy(labels, target + start, n_own * sizeof *labels);
    memset(all, 0, (size_t)n_cells * sizeof(double));
    for (int64_t member = 0; member < most; member++) {
        const double *own = space->supports + member * n_cells;
        const uint8_t *counted = space->counted + WIDTH * member;
        for (int i = 0; i < WIDTH; i++) margins.found[0][i] += (double)counted[i];
        for (int64_t first = 0; first < n_cells; first += WIDTH)
            for (int i = 0; i < WIDTH; i++) all[first + i] += own[first + i] * (double)counted[i];
    }
    find_rivals(all, n_labels, labels, WIDTH, WIDTH, &margins);
    for (int64_t member = 0; member < most; member++)
        add_member(space->supports + member * n_cells, WIDTH, n_labels, space->counted + WIDTH * member, WIDTH, &margins);
    for (int column = 0; column < 4; column++)
        memcpy(columns + column * trees->n_rows + start, margins.found[column], n_own * sizeof(double));
}

static INLINE void sum_classes(const ClassTrees *trees, const int64_t *target, const ClassSpace *space,
                               double *columns) {
    for (int64_t start = 0; start < trees->n_rows; start += WIDTH) sum_class_rows(trees, target, start, space, columns);
}

WIDE static void sum_classes_wide(const ClassTrees *trees, const int64_t *target, const ClassSpace *space,
                                  double *columns) {
    sum_classes(trees, target, space, columns);
}
