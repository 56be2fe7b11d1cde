/* The comparisons of the search by bits, for one type of features.  Included once for each, with REAL and NAMED(). */

/* Count the thresholds below each value: those of all rows take the same steps, so that searches do not wait for each
 * other's reads. */
static INLINE void NAMED(count_below)(const REAL *cuts, int64_t n_cuts, const REAL *values, int64_t n_rows,
                                      int32_t *n_below) {
    for (int64_t row = 0; row < n_rows; row++) n_below[row] = 0;
    for (int64_t n = n_cuts; n > 0;) {
        const int32_t half = (int32_t)(n > 1 ? n / 2 : 1);
        for (int64_t row = 0; row < n_rows; row++)
            n_below[row] += cuts[n_below[row] + half - 1] < values[row] ? half : 0;
        n -= half;
    }
}

/* Fill in the rows up to each threshold, and those with missing values. */
static INLINE void NAMED(compare)(const REAL *rows, int64_t n_rows, int64_t n_features, const Slices *slices, Space *space) {
    const int64_t *starts = slices->cut_starts;
    REAL values[TILE];
    int32_t n_below[TILE];
    memset(space->below, 0, (size_t)(starts[n_features] + n_features + 1) * sizeof(Bits));
    for (int64_t feature = 0; feature < n_features; feature++) {
        const int64_t n_cuts = starts[feature + 1] - starts[feature];
        Bits *below = space->below + starts[feature];
        if (!n_cuts) continue;
        for (int64_t row = 0; row < n_rows; row++) values[row] = rows[row * n_features + feature];
        NAMED(count_below)((const REAL *)slices->cuts + starts[feature], n_cuts, values, n_rows, n_below);
        for (int64_t row = 0; row < n_rows; row++) {
            if (values[row] != values[row])
                space->missing[feature].word[row / 64] |= space->bit_of[row % 64];
            else if (n_below[row] < n_cuts)
                below[n_below[row]].word[row / 64] |= space->bit_of[row % 64];
        }
        for (int64_t cut = 1; cut < n_cuts; cut++)
            for (int w = 0; w < WORDS; w++) below[cut].word[w] |= below[cut - 1].word[w];
    }
}

/* Writes the outputs; or counts where counts are asked for, or adds up values where there are some, or both. */
static INLINE void NAMED(slice_rows)(const Rows *rows, const Slices *slices, const Trees *trees, const Output *output,
                                     const Counts *counts, const ScoreSums *sums, Space *space) {
    const REAL *values = (const REAL *)rows->values;
    for (int64_t start = 0; start < rows->n_rows; start += TILE) {
        const int64_t n_rows = rows->n_rows - start < TILE ? rows->n_rows - start : TILE;
        NAMED(compare)(values + start * rows->n_features, n_rows, rows->n_features, slices, space);
        for (int64_t tree = 0; tree < trees->n_trees; tree++) {
            reach_nodes(slices, tree, n_rows, space);
            if (counts->all != NULL) {
                count_rows(slices, tree, counts, start, space);
                if (sums->values == NULL) continue;
            }
            const int64_t first = slices->leaf_starts[tree], n_leaves = slices->leaf_starts[tree + 1] - first;
            const uint8_t *wanted = rows->wanted == NULL ? NULL : rows->wanted + tree * rows->n_rows + start;
            const int32_t *leaves = slices->leaves + first;
            number_rows(slices, tree, space);
            if (sums->values != NULL) {
                keep_numbers(sums, tree, start, space);
                continue;
            }
            write_numbers(output, trees->roots[tree], tree * rows->n_rows + start, n_rows, wanted, leaves,
                          slices->codes + first, n_leaves, space->numbers);
        }
        if (sums->values != NULL) add_scores(sums, trees->n_trees, start, n_rows);
    }
}

WIDE static void NAMED(slice_wide)(const Rows *rows, const Slices *slices, const Trees *trees, const Output *output,
                                   const Counts *counts, const ScoreSums *sums, Space *space) {
    NAMED(slice_rows)(rows, slices, trees, output, counts, sums, space);
}

static void NAMED(slice)(const Rows *rows, const Slices *slices, const Trees *trees, const Output *output,
                         const Counts *counts, const ScoreSums *sums, Space *space) {
    if (HAS_WIDE)
        NAMED(slice_wide)(rows, slices, trees, output, counts, sums, space);
    else
        NAMED(slice_rows)(rows, slices, trees, output, counts, sums, space);
}
