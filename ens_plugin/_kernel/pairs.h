/* Sums over pairs of rows of the weighted covariance of their votes, from counts of bits.  As in
 * core/pair_covariance.py: the same operations in single precision, and sums by row of the second part. */

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

static INLINE int64_t sum_packed(const Pairs *pairs, int is_signed, int32_t *found, double *sums, double *squares) {
    const int64_t n_rows = pairs->second.n_rows;
    const int32_t *together = found, *own = found + n_rows, *others = own + n_rows, *products = others + n_rows;
    const float *slopes = pairs->second.slopes;
    int64_t freedom = 0;
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

static INLINE int64_t sum_pairs(const Pairs *pairs, int32_t *found, double *sums, double *squares) {
    const int is_signed = pack_votes(&pairs->first, pairs->n_members) |
                          (pairs->is_same ? 0 : pack_votes(&pairs->second, pairs->n_members));
    return sum_packed(pairs, is_signed, found, sums, squares);
}

/* Blocks of rows, whose pairs are those of different rows of one block. */
typedef struct {
    const int8_t *votes; /* by member and row: -1, 0 or 1 */
    const uint8_t *counted;
    int64_t n_members, n_rows;
    const int64_t *chosen, *starts; /* rows of the blocks, one block after the other, and where each starts */
    int64_t n_blocks;
    const float *slopes;  /* of the rows that are chosen */
    const int64_t *place; /* of each row among them; -1 for none */
    uint64_t *bits;       /* room for the bits of all blocks, each as of Voters */
} Blocks;

/* Rows that are packed together, and members of a byte. */
enum { PACKED_ROWS = 256, TOGETHER_IN_BYTE = 8 };

/* The bits of eight members for some rows, a byte by plane and row; returns whether a vote is against. */
static INLINE uint8_t pack_bytes(const Blocks *blocks, int64_t first, int64_t start, int64_t n_rows, uint8_t *bytes) {
    const int64_t left = blocks->n_members - first;
    const int n_members = left < TOGETHER_IN_BYTE ? (int)left : TOGETHER_IN_BYTE;
    uint8_t *is_counted = bytes, *is_for = bytes + PACKED_ROWS, *is_against = bytes + 2 * PACKED_ROWS, any_against = 0;
    memset(bytes, 0, VOTE_PLANES * PACKED_ROWS);
    for (int member = 0; member < n_members; member++) {
        const int64_t own = (first + member) * blocks->n_rows + start;
        const int8_t *votes = blocks->votes + own;
        const uint8_t *counted = blocks->counted + own, bit = (uint8_t)(1u << member);
        /* One plane after the other, because compilers are not sure that they do not overlap. */
        for (int64_t row = 0; row < n_rows; row++) is_counted[row] |= counted[row] ? bit : 0;
        for (int64_t row = 0; row < n_rows; row++) is_for[row] |= ((counted[row] != 0) & (votes[row] > 0)) ? bit : 0;
        for (int64_t row = 0; row < n_rows; row++) is_against[row] |= ((counted[row] != 0) & (votes[row] < 0)) ? bit : 0;
    }
    for (int64_t row = 0; row < n_rows; row++) any_against |= is_against[row];
    return any_against;
}

/* Pack the votes of all blocks, whose rows are strided, by parts of rows that are next to each other. */
static INLINE int pack_blocks(const Blocks *blocks, int64_t *block_of, uint8_t *bytes) {
    const int64_t n_words = (blocks->n_members + 63) / 64;
    uint8_t any_against = 0;
    for (int64_t block = 0; block < blocks->n_blocks; block++)
        for (int64_t place = blocks->starts[block]; place < blocks->starts[block + 1]; place++) block_of[place] = block;
    for (int64_t start = 0; start < blocks->n_rows; start += PACKED_ROWS) {
        const int64_t n_rows = blocks->n_rows - start < PACKED_ROWS ? blocks->n_rows - start : PACKED_ROWS;
        for (int64_t word = 0; word < n_words; word++) {
            const int64_t first = 64 * word, left = (blocks->n_members - first + TOGETHER_IN_BYTE - 1) / TOGETHER_IN_BYTE;
            const int n_bytes = left < TOGETHER_IN_BYTE ? (int)left : TOGETHER_IN_BYTE;
            for (int byte = 0; byte < n_bytes; byte++)
                any_against |= pack_bytes(blocks, first + TOGETHER_IN_BYTE * byte, start, n_rows,
                                          bytes + byte * VOTE_PLANES * PACKED_ROWS);
            for (int64_t row = 0; row < n_rows; row++) {
                const int64_t place = blocks->place[start + row];
                if (place < 0) continue;
                const int64_t block = block_of[place], head = blocks->starts[block];
                const int64_t size = blocks->starts[block + 1] - head;
                uint64_t *bits = blocks->bits + VOTE_PLANES * n_words * head + word * size + (place - head);
                for (int plane = 0; plane < VOTE_PLANES; plane++) {
                    uint64_t packed = 0;
                    for (int byte = 0; byte < n_bytes; byte++)
                        packed |= (uint64_t)bytes[(byte * VOTE_PLANES + plane) * PACKED_ROWS + row] << (8 * byte);
                    bits[plane * n_words * size] = packed;
                }
            }
        }
    }
    return any_against != 0;
}

static INLINE void sum_blocks(const Blocks *blocks, int64_t *space, uint8_t *bytes, int32_t *found, double *sums,
                              int64_t *freedoms) {
    const int64_t n_words = (blocks->n_members + 63) / 64, n_chosen = blocks->starts[blocks->n_blocks];
    const int is_signed = pack_blocks(blocks, space, bytes);
    for (int64_t block = 0; block < blocks->n_blocks; block++) {
        const int64_t head = blocks->starts[block], size = blocks->starts[block + 1] - head;
        const Voters own = {NULL, NULL, blocks->slopes + head, blocks->bits + VOTE_PLANES * n_words * head, size};
        const Pairs pairs = {own, own, blocks->n_members, 1};
        freedoms[block] = sum_packed(&pairs, is_signed, found, sums + head, sums + n_chosen + head);
    }
}

static void sum_blocks_plain(const Blocks *blocks, int64_t *space, uint8_t *bytes, int32_t *found, double *sums,
                             int64_t *freedoms) {
    sum_blocks(blocks, space, bytes, found, sums, freedoms);
}

WIDE static void sum_blocks_wide(const Blocks *blocks, int64_t *space, uint8_t *bytes, int32_t *found, double *sums,
                                 int64_t *freedoms) {
    sum_blocks(blocks, space, bytes, found, sums, freedoms);
}

#if defined(__GNUC__) && defined(__x86_64__)
/* Processors that count the bits of eight words at a time. */
__attribute__((target("avx512f,avx512bw,avx512dq,avx512vl,avx512vpopcntdq,popcnt"))) static void sum_blocks_widest(
    const Blocks *blocks, int64_t *space, uint8_t *bytes, int32_t *found, double *sums, int64_t *freedoms) {
    sum_blocks(blocks, space, bytes, found, sums, freedoms);
}

static int counts_many(void) {
    return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512dq") &&
           __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512vpopcntdq") && HAS_WIDE;
}
#else
#define sum_blocks_widest sum_blocks_plain
static int counts_many(void) { return 0; }
#endif

static int64_t sum_pairs_plain(const Pairs *pairs, int32_t *found, double *sums, double *squares) {
    return sum_pairs(pairs, found, sums, squares);
}

WIDE static int64_t sum_pairs_wide(const Pairs *pairs, int32_t *found, double *sums, double *squares) {
    return sum_pairs(pairs, found, sums, squares);
}
