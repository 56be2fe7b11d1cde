/* Sums over pairs of rows of the weighted covariance of their votes, from counts of bits.  As in
 * core/uncertainty/pair_covariance.py: the same operations in single precision, and sums by row of the second part. */

/* What the members vote on a row, as bits by member: that they count, for and against. */
enum { COUNTED, FOR, AGAINST, VOTE_PLANES };

typedef struct {
    const int8_t *votes; /* by member and row: -1, 0 or 1 */
    const uint8_t *counted;
    const float *slopes;
    uint64_t *bits; /* by plane, 64 members and row */
    int64_t n_rows;
} Voters;

typedef struct {
    Voters first, second;
    int64_t n_members;
    int is_same; /* each pair of different rows of one part once, else all pairs */
} Pairs;

/* Return whether a vote is against. */
static INLINE int pack_votes(const Voters *voters, int64_t n_members) {
    uint64_t any_against = 0;
    const int64_t n_rows = voters->n_rows, n_words = (n_members + 63) / 64;
    memset(voters->bits, 0, (size_t)(VOTE_PLANES * n_words * n_rows) * sizeof *voters->bits);
    for (int64_t member = 0; member < n_members; member++) {
        const int8_t *votes = voters->votes + member * n_rows;
        const uint8_t *counted = voters->counted + member * n_rows;
        uint64_t *bits = voters->bits + member / 64 * n_rows;
        for (int64_t row = 0; row < n_rows; row++) {
            const uint64_t bit = (uint64_t)(counted[row] != 0) << (member % 64), against = votes[row] < 0 ? bit : 0;
            bits[row] |= bit;
            bits[(FOR * n_words) * n_rows + row] |= votes[row] > 0 ? bit : 0;
            bits[(AGAINST * n_words) * n_rows + row] |= against;
            any_against |= against;
        }
    }
    return any_against != 0;
}

/* Count, for a row and those of the second part from `start` on, the members of both; sums of the votes of these; and
 * of the products of votes. */
static INLINE void count_pairs(const Pairs *pairs, int is_signed, int64_t row, int64_t start, int32_t *found) {
    const int64_t n_rows = pairs->second.n_rows, n_words = (pairs->n_members + 63) / 64;
    int32_t *together = found, *own = found + n_rows, *others = own + n_rows, *products = others + n_rows;
    memset(found, 0, (size_t)(4 * n_rows) * sizeof *found);
    for (int64_t word = 0; word < n_words; word++) {
        const uint64_t *here = pairs->first.bits + word * pairs->first.n_rows + row;
        const int64_t plane = n_words * pairs->first.n_rows;
        const uint64_t counts = here[0], is_for = here[FOR * plane], is_against = here[AGAINST * plane];
        const uint64_t *second = pairs->second.bits + word * n_rows;
        for (int64_t i = start; i < n_rows; i++) {
            const uint64_t counted = second[i], pro = second[FOR * n_words * n_rows + i];
            const uint64_t contra = second[AGAINST * n_words * n_rows + i];
            together[i] += (int32_t)COUNT_BITS(counts & counted);
            if (!is_signed) { /* half of the work */
                own[i] += (int32_t)COUNT_BITS(is_for & counted);
                others[i] += (int32_t)COUNT_BITS(counts & pro);
                products[i] += (int32_t)COUNT_BITS(is_for & pro);
                continue;
            }
            own[i] += (int32_t)COUNT_BITS(is_for & counted) - (int32_t)COUNT_BITS(is_against & counted);
            others[i] += (int32_t)COUNT_BITS(counts & pro) - (int32_t)COUNT_BITS(counts & contra);
            products[i] += (int32_t)COUNT_BITS((is_for & pro) | (is_against & contra)) -
                           (int32_t)COUNT_BITS((is_for & contra) | (is_against & pro));
        }
    }
}

static INLINE int64_t sum_pairs(const Pairs *pairs, int32_t *found, double *sums, double *squares) {
    const int64_t n_rows = pairs->second.n_rows;
    const int32_t *together = found, *own = found + n_rows, *others = own + n_rows, *products = others + n_rows;
    const float *slopes = pairs->second.slopes;
    int64_t freedom = 0;
    const int is_signed = pack_votes(&pairs->first, pairs->n_members) |
                          (pairs->is_same ? 0 : pack_votes(&pairs->second, pairs->n_members));
    for (int64_t row = 0; row < pairs->first.n_rows; row++) {
        const int64_t start = pairs->is_same ? row + 1 : 0;
        const float slope = pairs->first.slopes[row];
        if (is_signed)
            count_pairs(pairs, 1, row, start, found);
        else
            count_pairs(pairs, 0, row, start, found);
        for (int64_t i = start; i < n_rows; i++) {
            const int32_t number = together[i] > 1 ? together[i] : 1;
            const float product = (float)own[i] * (float)others[i];
            const float covariance = ((float)products[i] - product / (float)number) * (slope * slopes[i]);
            const double wide = covariance;
            freedom += number - 1;
            sums[i] += wide;
            squares[i] += wide * wide;
        }
    }
    return freedom;
}

static int64_t sum_pairs_plain(const Pairs *pairs, int32_t *found, double *sums, double *squares) {
    return sum_pairs(pairs, found, sums, squares);
}

WIDE static int64_t sum_pairs_wide(const Pairs *pairs, int32_t *found, double *sums, double *squares) {
    return sum_pairs(pairs, found, sums, squares);
}
