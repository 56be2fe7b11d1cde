/* The comparisons of the search by bits, for one type of features.  Included once for each, with REAL and NAMED(). */

static int64_t NAMED(count_below)(const REAL *cuts, int64_t n_cuts, REAL x) {
    const REAL *first = cuts;
    while (n_cuts > 1) {
        const int64_t half = n_cuts / 2;
        first += half * (first[half - 1] < x);
        n_cuts -= half;
    }
    return first - cuts + (n_cuts && *first < x);
}

/* Fill in the rows up to each threshold, and those with missing values. */
static void NAMED(compare)(const REAL *rows, int64_t n_rows, int64_t n_features, const Slices *slices, Space *space) {
    const int64_t *starts = slices->cut_starts;
    memset(space->below, 0, (size_t)(starts[n_features] + n_features + 1) * sizeof(Bits));
    for (int64_t feature = 0; feature < n_features; feature++) {
        const REAL *cuts = (const REAL *)slices->cuts + starts[feature];
        const int64_t n_cuts = starts[feature + 1] - starts[feature];
        Bits *below = space->below + starts[feature];
        for (int64_t row = 0; n_cuts && row < n_rows; row++) {
            const REAL x = rows[row * n_features + feature];
            if (x != x) {
                space->missing[feature].word[row / 64] |= BIT_OF(row);
                continue;
            }
            const int64_t cut = NAMED(count_below)(cuts, n_cuts, x);
            if (cut < n_cuts) below[cut].word[row / 64] |= BIT_OF(row);
        }
        for (int64_t cut = 1; cut < n_cuts; cut++)
            for (int w = 0; w < WORDS; w++) below[cut].word[w] |= below[cut - 1].word[w];
    }
}

/* Writes the outputs, or counts where there are bits of bags. */
static void NAMED(slice)(const Rows *rows, const Slices *slices, const Trees *trees, const Output *output,
                         const Counts *counts, Space *space) {
    const REAL *values = (const REAL *)rows->values;
    for (int64_t start = 0; start < rows->n_rows; start += TILE) {
        const int64_t n_rows = rows->n_rows - start < TILE ? rows->n_rows - start : TILE;
        NAMED(compare)(values + start * rows->n_features, n_rows, rows->n_features, slices, space);
        for (int64_t tree = 0; tree < trees->n_trees; tree++) {
            reach_nodes(slices, tree, n_rows, space);
            if (counts->bits != NULL) {
                count_rows(slices, tree, counts, start, space);
                continue;
            }
            const int64_t first = slices->leaf_starts[tree], n_leaves = slices->leaf_starts[tree + 1] - first;
            const uint8_t *wanted = rows->wanted == NULL ? NULL : rows->wanted + tree * rows->n_rows + start;
            const int32_t *leaves = slices->leaves + first;
            number_rows(leaves, n_leaves, space);
            write_numbers(output, trees->roots[tree], tree * rows->n_rows + start, n_rows, wanted, leaves, n_leaves,
                          space->numbers);
        }
    }
}
