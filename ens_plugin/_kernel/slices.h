/* The search by bits: each truth about 64 rows is a word, so that a split divides 64 rows with a few instructions.
 * It takes small trees, whose splits share their thresholds: a row is compared with each threshold once for all trees. */

#if defined(__GNUC__)
#define INLINE inline __attribute__((always_inline))
#define COUNT_BITS(word) __builtin_popcountll(word)
#define BITS_BELOW_LOWEST(word) __builtin_ctzll(word)
#else
#define INLINE inline
static int64_t count_bits(uint64_t word) {
    const uint64_t ones = ~UINT64_C(0) / 3, twos = ~UINT64_C(0) / 5, fours = ~UINT64_C(0) / 17;
    word -= word >> 1 & ones;
    word = (word & twos) + (word >> 2 & twos);
    return (int64_t)(((word + (word >> 4)) & fours) * (~UINT64_C(0) / 255) >> 56);
}
#define COUNT_BITS(word) count_bits(word)
#define BITS_BELOW_LOWEST(word) count_bits(((word) & (0 - (word))) - 1)
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
enum { WORDS = 4, TILE = 64 * WORDS, MOST_LEAVES = 256, PLANES = 8, LINE = 64 };

/* Rows of a tile whose scores are added up together. */
enum { PART = 64 };

typedef struct {
    uint64_t word[WORDS];
} Bits;

typedef struct {
    uint16_t place, first; /* node of the split, and its first child, which the second follows */
    int32_t cut, missing; /* its threshold among all; the column whose missing values go to the first child, or none */
} Split;

typedef struct {
    const void *cuts;          /* the thresholds of each column, ascending */
    const int64_t *cut_starts; /* by column */
    const Split *splits;       /* of each tree, parents before children */
    const int64_t *split_starts;
    const int32_t *leaves; /* nodes that are leaves, of each tree */
    const int64_t *leaf_starts;
    const uint8_t *codes;  /* of each leaf, by which rows are numbered */
    const uint16_t *turns; /* nodes below which a bit of the code differs from that of their parent, by tree and bit */
    const int64_t *turn_starts;
} Slices;

typedef struct {
    const int64_t *roots; /* position of each tree's first node in the table of an output */
    int64_t n_trees;
} Trees;

typedef struct {
    const uint8_t *bits;   /* as of np.packbits; NULL where rows in bag are not counted */
    const int64_t *bag_of; /* by tree */
    int64_t n_bytes;       /* of a bag */
    int64_t *in_bag, *all; /* rows counted by leaf; NULL where none are */
} Counts;

typedef struct {
    const double *values;    /* by code; NULL where nothing is summed */
    const int64_t *starts;   /* of each tree's values */
    const uint8_t *bits;     /* as of np.packbits, rows that do not count by tree; NULL where all count */
    int64_t n_bytes, n_rows; /* of a tree's bits, and of a column */
    double *columns;         /* as of sum_scores in tallies.h */
    int64_t *reached;        /* rows that count by code, as the values; NULL where they are not counted */
    uint64_t *counted;       /* space for the rows of a tile that count by tree, the first of a part highest */
    uint8_t *numbers;        /* and for the codes of their leaves */
    double *scores;          /* space for the scores of a part that count: by number, then by row */
} ScoreSums;

typedef struct {
    Bits reach[2 * MOST_LEAVES];
    Bits *below;   /* by threshold: rows up to it */
    Bits *missing; /* by column, and one without rows: rows whose value is missing */
    uint64_t spread[256]; /* the bits of a byte, as np.packbits orders them, as bytes */
    uint64_t bit_of[64];  /* of a row: in the byte of its column, if each eight rows are a line of bits */
    uint8_t numbers[TILE];
    void *room; /* what is to be freed */
} Space;

/* Return whether there is memory for what is kept of the rows of a tile. */
static int make_room(ScoreSums *sums, int64_t n_trees) {
    sums->scores = room_for(n_trees, PART * sizeof *sums->scores + TILE / PART * sizeof *sums->counted + TILE);
    if (sums->scores == NULL) return 0;
    sums->counted = (uint64_t *)(sums->scores + n_trees * PART);
    sums->numbers = (uint8_t *)(sums->counted + n_trees * (TILE / PART));
    return 1;
}

static Space *new_space(int64_t n_cuts, int64_t n_features) {
    /* Bits start at lines of the cache, because those that cross one take twice as long. */
    const int64_t n_lines = n_cuts + n_features + 1 + (int64_t)((sizeof(Space) + LINE) / sizeof(Bits)) + 1;
    void *room = room_for(n_lines, sizeof(Bits));
    if (room == NULL) return NULL;
    Bits *below = (Bits *)(((uintptr_t)room + LINE - 1) / LINE * LINE);
    Space *space = (Space *)(below + n_cuts + n_features + 1);
    space->room = room;
    space->below = below;
    space->missing = below + n_cuts;
    for (int byte = 0; byte < 256; byte++) {
        uint8_t bytes[8];
        for (int i = 0; i < 8; i++) bytes[i] = byte >> (7 - i) & 1;
        memcpy(&space->spread[byte], bytes, sizeof bytes);
    }
    for (int row = 0; row < 64; row++) {
        uint8_t bytes[8] = {0};
        bytes[row % 8] = (uint8_t)(1 << row / 8);
        memcpy(&space->bit_of[row], bytes, sizeof bytes);
    }
    return space;
}

/* Give each leaf of a tree a code, those below a first child the code of its parent, those below a second child one
 * that differs from it in as few bits as can be; and list, for each bit, the second children that differ in it. */
static int64_t number_leaves(const Split *splits, int64_t n_splits, const int32_t *leaves, int64_t n_leaves,
                             const uint8_t *nearest, uint8_t *codes, uint16_t *turns, int64_t *n_turns) {
    uint8_t of_node[2 * MOST_LEAVES] = {0}, turned[MOST_LEAVES], used[MOST_LEAVES] = {1};
    int64_t n_codes = 1, n_found = 0;
    while (n_codes < n_leaves) n_codes *= 2;
    for (int64_t i = 0; i < n_splits; i++) {
        const uint8_t own = of_node[splits[i].place];
        int at = 0;
        while (nearest[at] >= n_codes || used[own ^ nearest[at]]) at++;
        turned[i] = nearest[at];
        of_node[splits[i].first] = own;
        of_node[splits[i].first + 1] = own ^ turned[i];
        used[own ^ turned[i]] = 1;
    }
    for (int64_t i = 0; i < n_leaves; i++) codes[i] = of_node[leaves[i]];
    for (int bit = 0; bit < PLANES; bit++) {
        for (int64_t i = 0; i < n_splits; i++)
            if (turned[i] >> bit & 1) turns[n_found++] = (uint16_t)(splits[i].first + 1);
        n_turns[bit] = n_found;
    }
    return n_found;
}

/* Fill in the rows that reach each node of a tree. */
static INLINE void reach_nodes(const Slices *slices, int64_t tree, int64_t n_rows, Space *space) {
    Bits *reach = space->reach;
    for (int w = 0; w < WORDS; w++) {
        const int64_t n_own = n_rows - 64 * w;
        reach[0].word[w] = n_own >= 64 ? ~UINT64_C(0) : 0;
        for (int64_t row = 0; n_own < 64 && row < n_own; row++) reach[0].word[w] |= space->bit_of[row];
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

/* Exchange bits of two words in each byte: those of the first in the higher half of `mask`, which is `shift` bits up. */
static INLINE void exchange(Bits *one, Bits *other, int shift, uint64_t mask) {
    for (int w = 0; w < WORDS; w++) {
        const uint64_t differing = ((one->word[w] >> shift) ^ other->word[w]) & mask;
        other->word[w] ^= differing;
        one->word[w] ^= differing << shift;
    }
}

/* Turn the rows that reach nodes into the code of the leaf of each row: first its bits, then, by transposing squares of
 * eight bits, bytes. */
static INLINE void number_rows(const Slices *slices, int64_t tree, Space *space) {
    Bits planes[PLANES];
    const int64_t *starts = slices->turn_starts + PLANES * tree;
    for (int bit = 0; bit < PLANES; bit++) {
        Bits plane = {{0}};
        for (int64_t i = starts[bit]; i < starts[bit + 1]; i++) {
            const Bits *here = &space->reach[slices->turns[i]];
            for (int w = 0; w < WORDS; w++) plane.word[w] ^= here->word[w];
        }
        planes[bit] = plane;
    }
    for (int i = 0; i < 4; i++) exchange(planes + i, planes + i + 4, 4, ~UINT64_C(0) / 17);
    for (int i = 0; i < 8; i++)
        if (!(i & 2)) exchange(planes + i, planes + i + 2, 2, ~UINT64_C(0) / 5);
    for (int i = 0; i < 8; i += 2) exchange(planes + i, planes + i + 1, 1, ~UINT64_C(0) / 3);
    for (int w = 0; w < WORDS; w++)
        for (int i = 0; i < 8; i++) memcpy(space->numbers + 64 * w + 8 * i, &planes[i].word[w], 8);
}

#define WRITE_NUMBERS(TYPE)                                                                                 \
    {                                                                                                       \
        const TYPE *table = (const TYPE *)output->table + root;                                             \
        TYPE *values = (TYPE *)output->values + first, own[MOST_LEAVES];                                    \
        for (int64_t i = 0; i < n_leaves; i++) own[codes[i]] = table[leaves[i]];                            \
        if (wanted == NULL)                                                                                 \
            for (int64_t row = 0; row < n_rows; row++) values[row] = own[numbers[row]];                     \
        else                                                                                                \
            for (int64_t row = 0; row < n_rows; row++) values[row] = wanted[row] ? own[numbers[row]] : 0;   \
        return;                                                                                             \
    }

static INLINE void write_numbers(const Output *output, int64_t root, int64_t first, int64_t n_rows, const uint8_t *wanted,
                          const int32_t *leaves, const uint8_t *codes, int64_t n_leaves, const uint8_t *numbers) {
    switch (output->n_bytes) {
    case 1: WRITE_NUMBERS(uint8_t)
    case 2: WRITE_NUMBERS(uint16_t)
    case 4: WRITE_NUMBERS(uint32_t)
    case 8: WRITE_NUMBERS(uint64_t)
    }
}

/* Copy the bytes of a tile of rows, as of np.packbits; those of rows that are not there are 0. */
static INLINE void copy_tile(const uint8_t *bytes, int64_t n_bytes, int64_t start, uint8_t *tile) {
    const int64_t n_left = n_bytes - start / 8;
    if (n_left >= TILE / 8) {
        memcpy(tile, bytes + start / 8, TILE / 8);
        return;
    }
    memset(tile, 0, TILE / 8);
    memcpy(tile, bytes + start / 8, (size_t)n_left);
}

static INLINE Bits bag_of_tile(const Counts *counts, int64_t tree, int64_t start, const Space *space) {
    uint8_t tile[TILE / 8];
    copy_tile(counts->bits + counts->bag_of[tree] * counts->n_bytes, counts->n_bytes, start, tile);
    Bits bag = {{0}};
    for (int w = 0; w < WORDS; w++)
        for (int i = 0; i < 8; i++) bag.word[w] |= space->spread[tile[8 * w + i]] << i;
    return bag;
}

static INLINE void count_rows(const Slices *slices, int64_t tree, const Counts *counts, int64_t start,
                              const Space *space) {
    const int64_t first = slices->leaf_starts[tree], last = slices->leaf_starts[tree + 1];
    for (int64_t leaf = first; leaf < last; leaf++) {
        const Bits *here = &space->reach[slices->leaves[leaf]];
        int64_t all = 0;
        for (int w = 0; w < WORDS; w++) all += COUNT_BITS(here->word[w]);
        counts->all[leaf] += all;
    }
    if (counts->bits == NULL) return;
    const Bits bag = bag_of_tile(counts, tree, start, space);
    for (int64_t leaf = first; leaf < last; leaf++) {
        const Bits *here = &space->reach[slices->leaves[leaf]];
        int64_t drawn = 0;
        for (int w = 0; w < WORDS; w++) drawn += COUNT_BITS(here->word[w] & bag.word[w]);
        counts->in_bag[leaf] += drawn;
    }
}

/* Return the rows of a part that count, the first of them highest; of rows that are not there, none do. */
static INLINE uint64_t counted_rows(const uint8_t *out, int64_t n_rows) {
    uint64_t word = 0;
    for (int i = 0; i < PART / 8; i++) word = word << 8 | out[i];
    return ~(word | (n_rows >= PART ? 0 : n_rows <= 0 ? ~UINT64_C(0) : ~UINT64_C(0) >> n_rows));
}

/* Keep the code of the leaf of each row in a tree, and the rows that count. */
static INLINE void keep_numbers(const ScoreSums *sums, int64_t tree, int64_t start, const Space *space) {
    memcpy(sums->numbers + tree * TILE, space->numbers, TILE);
    uint8_t out[TILE / 8] = {0};
    if (sums->bits != NULL) copy_tile(sums->bits + tree * sums->n_bytes, sums->n_bytes, start, out);
    for (int64_t place = 0; place < TILE; place += PART)
        sums->counted[(tree * TILE + place) / PART] = counted_rows(out + place / 8, sums->n_rows - start - place);
}

/* Write the scores of a part, if all count; return where those of each row end. */
static INLINE void put_all_scores(const ScoreSums *sums, int64_t n_trees, int64_t place, int32_t *end) {
    for (int64_t tree = 0; tree < n_trees; tree++) {
        const double *values = sums->values + sums->starts[tree];
        const uint8_t *numbers = sums->numbers + tree * TILE + place;
        for (int row = 0; row < PART; row++) sums->scores[tree * PART + row] = values[numbers[row]];
    }
    for (int row = 0; row < PART; row++) end[row] = (int32_t)n_trees * PART + row;
}

/* Write the scores of a part that count, those of each row in the order of the trees; return where they end. */
static INLINE void put_scores(const ScoreSums *sums, int64_t n_trees, int64_t place, int32_t *end) {
    double *scores = sums->scores;
    for (int row = 0; row < PART; row++) end[row] = row;
    for (int64_t tree = 0; tree < n_trees; tree++) {
        const double *values = sums->values + sums->starts[tree];
        const uint8_t *numbers = sums->numbers + tree * TILE + place;
        int64_t *reached = sums->reached == NULL ? NULL : sums->reached + sums->starts[tree];
        for (uint64_t left = sums->counted[(tree * TILE + place) / PART]; left; left &= left - 1) {
            const int row = PART - 1 - (int)BITS_BELOW_LOWEST(left);
            const uint8_t code = numbers[row];
            scores[end[row]] = values[code];
            end[row] += PART;
            if (reached != NULL) reached[code]++;
        }
    }
}

/* As sum_scores in tallies.h, for some rows of a tile whose leaves in all trees are known. */
static INLINE void add_part(const ScoreSums *sums, int64_t n_trees, int64_t place, double found[4][PART]) {
    double *trials = found[0], *total = found[1], *squares = found[2], *positive = found[3];
    double mean[PART], number = 0.0;
    int32_t end[PART], most = 0;
    if (sums->bits == NULL && sums->reached == NULL)
        put_all_scores(sums, n_trees, place, end);
    else
        put_scores(sums, n_trees, place, end);
    for (int i = 0; i < PART; i++) {
        most = end[i] - i > most ? end[i] - i : most;
        trials[i] = (double)((end[i] - i) / PART);
    }
    /* Behind a row's last score is what another part left there. */
    for (const double *own = sums->scores; own < sums->scores + most; own += PART, number += 1.0)
        for (int i = 0; i < PART; i++) {
            const double score = number < trials[i] ? own[i] : 0.0;
            total[i] += score;
            positive[i] += score > 0.0 ? 1.0 : 0.0;
        }
    for (int i = 0; i < PART; i++) mean[i] = total[i] / (trials[i] > 1.0 ? trials[i] : 1.0);
    number = 0.0;
    for (const double *own = sums->scores; own < sums->scores + most; own += PART, number += 1.0)
        for (int i = 0; i < PART; i++) {
            const double deviation = number < trials[i] ? own[i] - mean[i] : 0.0;
            squares[i] += deviation * deviation;
        }
}

static INLINE void add_scores(const ScoreSums *sums, int64_t n_trees, int64_t start, int64_t n_rows) {
    for (int64_t place = 0; place < n_rows; place += PART) {
        double found[4][PART] = {{0}};
        const int64_t n_own = n_rows - place < PART ? n_rows - place : PART;
        add_part(sums, n_trees, place, found);
        for (int column = 0; column < 4; column++)
            memcpy(sums->columns + column * sums->n_rows + start + place, found[column], (size_t)n_own * sizeof(double));
    }
}
