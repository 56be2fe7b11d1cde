/* The search by bits: each truth about 64 rows is a word, so that a split divides 64 rows with a few instructions.
 * It takes small trees, whose splits share their thresholds: a row is compared with each threshold once for all trees. */

#if defined(__GNUC__)
#define INLINE inline __attribute__((always_inline))
#define COUNT_BITS(word) __builtin_popcountll(word)
#else
#define INLINE inline
static int64_t count_bits(uint64_t word) {
    const uint64_t ones = ~UINT64_C(0) / 3, twos = ~UINT64_C(0) / 5, fours = ~UINT64_C(0) / 17;
    word -= word >> 1 & ones;
    word = (word & twos) + (word >> 2 & twos);
    return (int64_t)(((word + (word >> 4)) & fours) * (~UINT64_C(0) / 255) >> 56);
}
#define COUNT_BITS(word) count_bits(word)
#endif

#if defined(__GNUC__) && defined(__x86_64__)
/* Compilers use the instructions of the oldest processors unless told otherwise.  Functions for others hold copies of
 * all that they call, with words of 256 bits and an instruction that counts bits, and return the same numbers. */
#define WIDE __attribute__((target("avx2,popcnt")))
#define HAS_WIDE (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("popcnt"))
#else
#define WIDE
#define HAS_WIDE 0
#endif

/* Words that are handled together; leaves of a tree, whose numbers fit into a byte. */
enum { WORDS = 4, TILE = 64 * WORDS, MOST_LEAVES = 256 };

typedef struct {
    uint64_t word[WORDS];
} Bits;

typedef struct {
    int32_t place, first; /* node of the split, and its first child, which the second follows */
    int32_t cut, missing; /* its threshold among all; the column whose missing values go to the first child, or none */
} Split;

typedef struct {
    const void *cuts;          /* the thresholds of each column, ascending */
    const int64_t *cut_starts; /* by column */
    const Split *splits;       /* of each tree, parents before children */
    const int64_t *split_starts;
    const int32_t *leaves; /* nodes that are leaves, of each tree */
    const int64_t *leaf_starts;
} Slices;

typedef struct {
    const int64_t *roots; /* position of each tree's first node in the table of an output */
    int64_t n_trees;
} Trees;

typedef struct {
    const uint8_t *bits; /* as of np.packbits; NULL where nothing is counted */
    const int64_t *bag_of; /* by tree */
    int64_t n_bytes;       /* of a bag */
    int64_t *in_bag, *all; /* rows counted by leaf */
} Counts;

typedef struct {
    const double *values;    /* of each leaf; NULL where nothing is summed */
    const uint8_t *bits;     /* as of np.packbits, rows that do not count by tree; NULL where all count */
    int64_t n_bytes, n_rows; /* of a tree's bits, and of a column */
    double *columns;         /* as of sum_scores in tallies.h */
    uint8_t *numbers, *counted; /* space for a tile of all trees */
} ScoreSums;

typedef struct {
    Bits *below;   /* by threshold: rows up to it */
    Bits *missing; /* by column, and one without rows: rows whose value is missing */
    Bits reach[2 * MOST_LEAVES], joined[MOST_LEAVES];
    uint64_t spread[256]; /* the bits of a byte as bytes */
    uint8_t numbers[TILE];
} Space;

/* As np.packbits orders rows. */
#define BIT_OF(row) (UINT64_C(1) << (((row) & 63) ^ 7))

static Space *new_space(int64_t n_cuts, int64_t n_features) {
    Space *space = malloc(sizeof *space + (size_t)(n_cuts + n_features + 1) * sizeof(Bits));
    if (space == NULL) return NULL;
    space->below = (Bits *)(space + 1);
    space->missing = space->below + n_cuts;
    for (int byte = 0; byte < 256; byte++) {
        uint8_t bytes[8];
        for (int i = 0; i < 8; i++) bytes[i] = byte >> (7 - i) & 1;
        memcpy(&space->spread[byte], bytes, sizeof bytes);
    }
    return space;
}

/* Fill in the rows that reach each node of a tree. */
static INLINE void reach_nodes(const Slices *slices, int64_t tree, int64_t n_rows, Space *space) {
    Bits *reach = space->reach;
    for (int w = 0; w < WORDS; w++) {
        const int64_t n_own = n_rows - 64 * w;
        reach[0].word[w] = n_own >= 64 ? ~UINT64_C(0) : 0;
        for (int64_t row = 0; n_own < 64 && row < n_own; row++) reach[0].word[w] |= BIT_OF(row);
    }
    for (int64_t index = slices->split_starts[tree]; index < slices->split_starts[tree + 1]; index++) {
        const Split split = slices->splits[index];
        const Bits here = reach[split.place], below = space->below[split.cut], missing = space->missing[split.missing];
        Bits first, second;
        for (int w = 0; w < WORDS; w++) first.word[w] = here.word[w] & (below.word[w] | missing.word[w]);
        for (int w = 0; w < WORDS; w++) second.word[w] = here.word[w] & ~first.word[w];
        reach[split.first] = first;
        reach[split.first + 1] = second;
    }
}

/* Turn the rows of each leaf into the number of the leaf of each row: first its bits, then bytes. */
static INLINE void number_rows(const int32_t *leaves, int64_t n_leaves, Space *space) {
    Bits planes[8], *joined = space->joined;
    int n_planes = 0;
    for (int64_t i = 0; i < n_leaves; i++) joined[i] = space->reach[leaves[i]];
    for (int64_t n = n_leaves; n > 1; n = (n + 1) / 2) {
        Bits odd = {{0}};
        for (int64_t i = 0; i + 1 < n; i += 2) {
            const Bits one = joined[i], other = joined[i + 1];
            Bits both;
            for (int w = 0; w < WORDS; w++) odd.word[w] |= other.word[w];
            for (int w = 0; w < WORDS; w++) both.word[w] = one.word[w] | other.word[w];
            joined[i / 2] = both;
        }
        if (n % 2) joined[n / 2] = joined[n - 1];
        planes[n_planes++] = odd;
    }
    for (int at = 0; at < TILE / 8; at++) {
        uint64_t numbers = 0;
        for (int b = 0; b < n_planes; b++)
            numbers |= space->spread[planes[b].word[at / 8] >> (at % 8 * 8) & 255] << b;
        memcpy(space->numbers + 8 * at, &numbers, sizeof numbers);
    }
}

#define WRITE_NUMBERS(TYPE)                                                                                 \
    {                                                                                                       \
        const TYPE *table = (const TYPE *)output->table + root;                                             \
        TYPE *values = (TYPE *)output->values + first, own[MOST_LEAVES];                                    \
        for (int64_t i = 0; i < n_leaves; i++) own[i] = table[leaves[i]];                                   \
        if (wanted == NULL)                                                                                 \
            for (int64_t row = 0; row < n_rows; row++) values[row] = own[numbers[row]];                     \
        else                                                                                                \
            for (int64_t row = 0; row < n_rows; row++) values[row] = wanted[row] ? own[numbers[row]] : 0;   \
        return;                                                                                             \
    }

static INLINE void write_numbers(const Output *output, int64_t root, int64_t first, int64_t n_rows, const uint8_t *wanted,
                          const int32_t *leaves, int64_t n_leaves, const uint8_t *numbers) {
    switch (output->n_bytes) {
    case 1: WRITE_NUMBERS(uint8_t)
    case 2: WRITE_NUMBERS(uint16_t)
    case 4: WRITE_NUMBERS(uint32_t)
    case 8: WRITE_NUMBERS(uint64_t)
    }
}

static INLINE Bits bag_of_tile(const Counts *counts, int64_t tree, int64_t start) {
    const uint8_t *bytes = counts->bits + counts->bag_of[tree] * counts->n_bytes;
    Bits bag = {{0}};
    for (int w = 0; w < WORDS; w++)
        for (int64_t i = 0, at = start / 8 + 8 * w; i < 8 && at + i < counts->n_bytes; i++)
            bag.word[w] |= (uint64_t)bytes[at + i] << (8 * i);
    return bag;
}

static INLINE void count_rows(const Slices *slices, int64_t tree, const Counts *counts, int64_t start,
                              const Space *space) {
    const Bits bag = bag_of_tile(counts, tree, start);
    for (int64_t leaf = slices->leaf_starts[tree]; leaf < slices->leaf_starts[tree + 1]; leaf++) {
        const Bits *here = &space->reach[slices->leaves[leaf]];
        int64_t drawn = 0, all = 0;
        for (int w = 0; w < WORDS; w++) {
            drawn += COUNT_BITS(here->word[w] & bag.word[w]);
            all += COUNT_BITS(here->word[w]);
        }
        counts->in_bag[leaf] += drawn;
        counts->all[leaf] += all;
    }
}

/* Keep the leaf of each row in a tree, and whether the row counts. */
static INLINE void keep_numbers(const ScoreSums *sums, int64_t tree, int64_t start, const Space *space) {
    memcpy(sums->numbers + tree * TILE, space->numbers, TILE);
    uint8_t *counted = sums->counted + tree * TILE;
    for (int64_t i = 0, at = start / 8; i < TILE / 8; i++) {
        const uint8_t out = sums->bits == NULL || at + i >= sums->n_bytes ? 0 : sums->bits[tree * sums->n_bytes + at + i];
        memcpy(counted + 8 * i, &space->spread[255 & ~out], 8);
    }
}

/* As sum_scores in tallies.h, for a tile of rows whose leaves in all trees are known. */
static INLINE void add_scores(const ScoreSums *sums, const Slices *slices, int64_t n_trees, int64_t start, int64_t n_rows) {
    double found[5][TILE] = {{0}}, mean[TILE], own[TILE];
    double *trials = found[0], *total = found[1], *squares = found[2], *positive = found[3], *deciding = found[4];
    for (int64_t tree = 0; tree < n_trees; tree++) {
        const double *values = sums->values + slices->leaf_starts[tree];
        const uint8_t *numbers = sums->numbers + tree * TILE, *counted = sums->counted + tree * TILE;
        for (int i = 0; i < TILE; i++) own[i] = values[numbers[i]];
        for (int i = 0; i < TILE; i++) {
            const double counts = counted[i];
            trials[i] += counts;
            total[i] += own[i] * counts;
            positive[i] += own[i] > 0.0 ? counts : 0.0;
        }
    }
    for (int i = 0; i < TILE; i++) mean[i] = total[i] / (trials[i] > 1.0 ? trials[i] : 1.0);
    for (int64_t tree = 0; tree < n_trees; tree++) {
        const double *values = sums->values + slices->leaf_starts[tree];
        const uint8_t *numbers = sums->numbers + tree * TILE, *counted = sums->counted + tree * TILE;
        for (int i = 0; i < TILE; i++) own[i] = values[numbers[i]];
        for (int i = 0; i < TILE; i++) {
            const double counts = counted[i], deviation = (own[i] - mean[i]) * counts;
            squares[i] += deviation * deviation;
            deciding[i] += own[i] >= total[i] ? counts : 0.0;
        }
    }
    for (int column = 0; column < 5; column++)
        memcpy(sums->columns + column * sums->n_rows + start, found[column], (size_t)n_rows * sizeof(double));
}
