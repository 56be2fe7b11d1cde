/* How many subsets of the members elect a wrong label.  As in core/tally.py, a whole number holds the votes of a slot and its rank, so that one maximum finds the first
 * of the slots with most votes. */

/* Rows whose votes are counted together. */
enum { VOTERS = 16 };

typedef struct {
    const uint16_t *votes;  /* slot by member and row */
    const int64_t *places;  /* members of each subset */
    const int32_t *of_true; /* rank of the true label of each row, or a number that is none */
    int64_t n_members, n_rows, n_slots, n_subsets, size;
    int32_t base;
} Election;

static INLINE void elect(const Election *election, int64_t start, int width, int32_t *sums, int32_t *wrong) {
    const int64_t n_slots = election->n_slots;
    const int32_t base = election->base, ranks = base - 1;
    for (int64_t subset = 0; subset < election->n_subsets; subset++) {
        int32_t best[VOTERS] = {0};
        for (int64_t slot = 0; slot < n_slots; slot++)
            for (int i = 0; i < VOTERS; i++) sums[slot * VOTERS + i] = ranks - (int32_t)slot;
        for (int64_t place = 0; place < election->size; place++) {
            const int64_t member = election->places[subset * election->size + place];
            const uint16_t *own = election->votes + member * election->n_rows + start;
            for (int i = 0; i < width; i++) sums[own[i] * VOTERS + i] += base;
        }
        for (int64_t slot = 0; slot < n_slots; slot++)
            for (int i = 0; i < VOTERS; i++) {
                const int32_t sum = sums[slot * VOTERS + i];
                best[i] = sum > best[i] ? sum : best[i];
            }
        for (int i = 0; i < width; i++) wrong[start + i] += (best[i] & ranks) != election->of_true[start + i];
    }
}

static INLINE void elect_all(const Election *election, int32_t *space, int32_t *wrong) {
    for (int64_t start = 0; start < election->n_rows; start += VOTERS)
        if (election->n_rows - start >= VOTERS)
            elect(election, start, VOTERS, space, wrong);
        else
            elect(election, start, (int)(election->n_rows - start), space, wrong);
}

WIDE static void elect_all_wide(const Election *election, int32_t *space, int32_t *wrong) {
    elect_all(election, space, wrong);
}
