/* The walk of trees in single precision, 16 rows to the instruction, where the processor gathers fast; after walk_tree.h.
 * Rows that have reached a leaf are left out of the next steps, and their values written from a list.  A tree that many
 * rows walk is first packed into nodes of two words, and its first levels into registers: fewer words are gathered. */

#if defined(__GNUC__) && defined(__x86_64__)
#include <cpuid.h>
#include <immintrin.h>

#define LANED __attribute__((target("avx512f,popcnt")))

/* Numbers in a vector; rows that step together, which keep the nodes of many apart; bytes of the features of a tile. */
enum { LANES = 16, TOGETHER = 256, MOST_LANED_FEATURES = 1 << 20, MOST_LANED_NODES = 1 << 29, LANED_BYTES = 1 << 19 };

/* Levels whose nodes registers hold, and how many these are; packed nodes for each row that make packing worth its time. */
enum { TOP_LEVELS = 5, TOP_NODES = 32, MOST_PACKED_FOR_ROW = 16 };

/* Processors with AVX-512 before those with BF16 gather one number at a time, since a defect of theirs was mended. */
static int has_lanes(void) {
    unsigned int a = 0, b = 0, c = 0, d = 0;
    if (!__builtin_cpu_supports("avx512f") || !__builtin_cpu_supports("popcnt")) return 0;
    return __get_cpuid_count(7, 1, &a, &b, &c, &d) && (a >> 5 & 1);
}

/* Rows of a tile and the nodes where they are; room for one vector more than there are rows. */
typedef struct {
    uint32_t row[MOST_TILE_ROWS + LANES], at[MOST_TILE_ROWS + LANES];
} Places;

LANED static INLINE void put_lanes(uint32_t *into, __mmask16 chosen, __m512i values) {
    _mm512_storeu_si512(into, _mm512_maskz_compress_epi32(chosen, values));
}

/* Write the rows that are wanted, ascending; return their number. */
LANED static int64_t list_rows(const uint8_t *wanted, int64_t n_rows, uint32_t *row) {
    const __m512i first = _mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
    int64_t n_found = 0, next = 0;
    for (; next + LANES <= n_rows; next += LANES) {
        const __m512i own = _mm512_add_epi32(first, _mm512_set1_epi32((int)next));
        __mmask16 chosen = 0xffff;
        if (wanted != NULL) {
            const __m128i none = _mm_cmpeq_epi8(_mm_loadu_si128((const void *)(wanted + next)), _mm_setzero_si128());
            chosen = (__mmask16)~_mm_movemask_epi8(none);
        }
        put_lanes(row + n_found, chosen, own);
        n_found += __builtin_popcount(chosen);
    }
    for (; next < n_rows; next++) {
        row[n_found] = (uint32_t)next;
        n_found += wanted == NULL || wanted[next];
    }
    return n_found;
}

/* The column is in the lowest bits of a link, above them whether a missing value goes to the first child, then that child. */
typedef struct {
    float threshold;
    uint32_t link;
} PackedNode;

typedef struct {
    const Node32 *nodes;
    PackedNode *packed; /* room for TOP_NODES and a vector more than the tree has nodes; NULL if it is not packed */
    int64_t n_features;
    int n_bits; /* of a column */
} LanedTree;

static int can_pack(int64_t n_nodes, int n_bits) { return n_nodes < (int64_t)1 << (31 - n_bits); }

LANED static void pack_nodes(const LanedTree *tree, int64_t n_nodes) {
    const __m512i third = _mm512_setr_epi32(0, 3, 6, 9, 12, 15, 18, 21, 24, 27, 30, 33, 36, 39, 42, 45);
    const __m512i low = _mm512_setr_epi32(0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23);
    const __m512i high = _mm512_add_epi32(low, _mm512_set1_epi32(LANES / 2)), none = _mm512_setzero_si512();
    const __m512i flag = _mm512_set1_epi32((int)(1u << tree->n_bits)), column = _mm512_set1_epi32((int)FEATURE);
    const __m128i n_lower = _mm_cvtsi32_si128(tree->n_bits + 1);
    for (int64_t i = 0; i < n_nodes; i += LANES) {
        const __mmask16 is_node = n_nodes - i >= LANES ? 0xffff : (__mmask16)((1u << (n_nodes - i)) - 1);
        const Node32 *own = tree->nodes + i; /* a node is three words */
        const __m512i threshold = _mm512_mask_i32gather_epi32(none, is_node, third, &own->threshold, 4);
        const __m512i feature = _mm512_mask_i32gather_epi32(none, is_node, third, &own->feature, 4);
        const __m512i first = _mm512_mask_i32gather_epi32(none, is_node, third, &own->first, 4);
        __m512i link = _mm512_or_si512(_mm512_sll_epi32(first, n_lower), _mm512_and_si512(feature, column));
        link = _mm512_mask_or_epi32(link, _mm512_cmplt_epi32_mask(feature, none), link, flag);
        _mm512_storeu_si512(tree->packed + i, _mm512_permutex2var_epi32(threshold, low, link));
        _mm512_storeu_si512(tree->packed + i + LANES / 2, _mm512_permutex2var_epi32(threshold, high, link));
    }
}

/* Nodes of 16 rows. */
typedef struct {
    __m512 threshold;
    __m512i feature, first;
    __mmask16 missing_first;
} Lanes;

LANED static INLINE Lanes unpacked(const LanedTree *tree, __m512i threshold, __m512i link) {
    const __m512i flag = _mm512_set1_epi32((int)(1u << tree->n_bits));
    const __m512i feature = _mm512_and_si512(link, _mm512_sub_epi32(flag, _mm512_set1_epi32(1)));
    const __m512i first = _mm512_srl_epi32(link, _mm_cvtsi32_si128(tree->n_bits + 1));
    return (Lanes){_mm512_castsi512_ps(threshold), feature, first, _mm512_test_epi32_mask(link, flag)};
}

LANED static INLINE Lanes gathered(const LanedTree *tree, __m512i at, int is_packed) {
    if (is_packed)
        return unpacked(tree, _mm512_i32gather_epi32(at, &tree->packed->threshold, 8),
                        _mm512_i32gather_epi32(at, &tree->packed->link, 8));
    const __m512i place = _mm512_add_epi32(at, _mm512_add_epi32(at, at));
    const __m512i feature = _mm512_i32gather_epi32(place, &tree->nodes->feature, 4);
    return (Lanes){_mm512_i32gather_ps(place, &tree->nodes->threshold, 4),
                   _mm512_and_si512(feature, _mm512_set1_epi32((int)FEATURE)),
                   _mm512_i32gather_epi32(place, &tree->nodes->first, 4),
                   _mm512_cmplt_epi32_mask(feature, _mm512_setzero_si512())};
}

/* The nodes that follow those of 16 rows, whose features start at some cells. */
LANED static INLINE __m512i next_nodes(Lanes nodes, const float *rows, __m512i cell, int is_missing) {
    const __m512 x = _mm512_i32gather_ps(_mm512_add_epi32(cell, nodes.feature), rows, 4);
    /* A value that becomes NaN after all were looked at stays at its leaf, as in walk_tree.h. */
    __mmask16 goes_second = _mm512_cmp_ps_mask(x, nodes.threshold, _CMP_GT_OQ);
    if (is_missing) {
        const __mmask16 is_nan = _mm512_cmp_ps_mask(x, x, _CMP_UNORD_Q);
        goes_second = _mm512_cmp_ps_mask(x, nodes.threshold, _CMP_NLE_UQ) & (__mmask16)~(is_nan & nodes.missing_first);
    }
    return _mm512_mask_add_epi32(nodes.first, goes_second, nodes.first, _mm512_set1_epi32(1));
}

/* Rows that step together: their numbers, the cells where their features start, and their nodes. */
typedef struct {
    uint32_t row[TOGETHER + LANES], cell[TOGETHER + LANES], at[TOGETHER + LANES];
} Walkers;

/* Walk the first levels, whose nodes registers hold. */
LANED static INLINE void walk_top(const LanedTree *tree, const float *rows, int64_t n_walking, int is_missing,
                                  Walkers *walkers) {
    const __m512i even = _mm512_setr_epi32(0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30);
    const __m512i odd = _mm512_add_epi32(even, _mm512_set1_epi32(1));
    __m512i words[4];
    for (int i = 0; i < 4; i++) words[i] = _mm512_loadu_si512(tree->packed + i * (TOP_NODES / 4));
    const __m512i low = _mm512_permutex2var_epi32(words[0], even, words[1]);
    const __m512i high = _mm512_permutex2var_epi32(words[2], even, words[3]);
    const __m512i low_link = _mm512_permutex2var_epi32(words[0], odd, words[1]);
    const __m512i high_link = _mm512_permutex2var_epi32(words[2], odd, words[3]);
    for (int level = 0; level < TOP_LEVELS; level++)
        for (int64_t i = 0; i < n_walking; i += LANES) {
            const __m512i at = _mm512_loadu_si512(walkers->at + i);
            /* Up to the last level there are fewer than 16 nodes. */
            const int is_last = level == TOP_LEVELS - 1;
            const __m512i threshold = is_last ? _mm512_permutex2var_epi32(low, at, high) : _mm512_permutexvar_epi32(at, low);
            const __m512i link = is_last ? _mm512_permutex2var_epi32(low_link, at, high_link)
                                         : _mm512_permutexvar_epi32(at, low_link);
            const __m512i next = next_nodes(unpacked(tree, threshold, link), rows,
                                            _mm512_loadu_si512(walkers->cell + i), is_missing);
            _mm512_storeu_si512(walkers->at + i, next);
        }
}

/* Walk some rows, listed at `row`; write them with their leaves, in another order, and return behind the last. */
LANED static INLINE int64_t walk_some(const LanedTree *tree, const float *rows, const uint32_t *listed, int64_t n_walking,
                                      int n_steps, int is_missing, int is_packed, Places *ends, int64_t n_ended) {
    Walkers own = {{0}, {0}, {0}};
    const __m512i width = _mm512_set1_epi32((int)tree->n_features), none = _mm512_setzero_si512();
    memcpy(own.row, listed, (size_t)n_walking * sizeof *listed);
    for (int64_t i = 0; i < n_walking; i += LANES)
        _mm512_storeu_si512(own.cell + i, _mm512_mullo_epi32(_mm512_loadu_si512(own.row + i), width));
    if (is_packed) walk_top(tree, rows, n_walking, is_missing, &own);
    int n_next = is_packed && n_steps > TOP_LEVELS ? n_steps - TOP_LEVELS : n_steps;
    for (; n_walking; n_next = n_steps) {
        for (int step = 1; step < n_next; step++)
            for (int64_t i = 0; i < n_walking; i += LANES) {
                const Lanes nodes = gathered(tree, _mm512_loadu_si512(own.at + i), is_packed);
                const __m512i cell = _mm512_loadu_si512(own.cell + i);
                _mm512_storeu_si512(own.at + i, next_nodes(nodes, rows, cell, is_missing));
            }
        int64_t n_left = 0;
        for (int64_t i = 0; i < n_walking; i += LANES) {
            const __m512i here = _mm512_loadu_si512(own.at + i), cell = _mm512_loadu_si512(own.cell + i);
            const __m512i row = _mm512_loadu_si512(own.row + i);
            const __m512i next = next_nodes(gathered(tree, here, is_packed), rows, cell, is_missing);
            const __mmask16 is_row = n_walking - i >= LANES ? 0xffff : (__mmask16)((1u << (n_walking - i)) - 1);
            const __mmask16 stays = _mm512_mask_cmpneq_epi32_mask(is_row, here, next), ended = is_row & (__mmask16)~stays;
            put_lanes(ends->row + n_ended, ended, row);
            put_lanes(ends->at + n_ended, ended, next);
            n_ended += __builtin_popcount(ended);
            put_lanes(own.row + n_left, stays, row);
            put_lanes(own.cell + n_left, stays, cell);
            put_lanes(own.at + n_left, stays, next);
            n_left += __builtin_popcount(stays);
        }
        n_walking = n_left;
        _mm512_storeu_si512(own.at + n_left, none); /* a vector that is not full walks the tree too */
        _mm512_storeu_si512(own.cell + n_left, none);
    }
    return n_ended;
}

LANED static void walk_lanes(const LanedTree *tree, const float *rows, const uint32_t *listed, int64_t n_listed,
                             int is_missing, Places *ends) {
    const int n_levels = count_steps_32(tree->nodes), n_steps = n_levels ? n_levels : 1;
    int64_t n_ended = 0;
    for (int64_t start = 0; start < n_listed; start += TOGETHER) {
        const int64_t n_walking = n_listed - start < TOGETHER ? n_listed - start : TOGETHER;
        const uint32_t *own = listed + start;
        if (tree->packed != NULL && is_missing)
            n_ended = walk_some(tree, rows, own, n_walking, n_steps, 1, 1, ends, n_ended);
        else if (tree->packed != NULL)
            n_ended = walk_some(tree, rows, own, n_walking, n_steps, 0, 1, ends, n_ended);
        else if (is_missing)
            n_ended = walk_some(tree, rows, own, n_walking, n_steps, 1, 0, ends, n_ended);
        else
            n_ended = walk_some(tree, rows, own, n_walking, n_steps, 0, 0, ends, n_ended);
    }
}

#define WRITE_ENDS(TYPE)                                                                        \
    {                                                                                           \
        const TYPE *table = (const TYPE *)output->table + root;                                 \
        TYPE *values = (TYPE *)output->values + first;                                          \
        for (int64_t i = 0; i < n_ended; i++) values[ends->row[i]] = table[ends->at[i]];        \
        return;                                                                                 \
    }

static void write_ends(const Output *output, int64_t root, int64_t first, int64_t n_ended, const Places *ends) {
    switch (output->n_bytes) {
    case 1: WRITE_ENDS(uint8_t)
    case 2: WRITE_ENDS(uint16_t)
    case 4: WRITE_ENDS(uint32_t)
    case 8: WRITE_ENDS(uint64_t)
    }
}

/* Return whether rows were walked: not so few of them, so many features or so large trees. */
static int walk_by_lanes(const Rows *rows, const Forest *forest, const Output *output) {
    static int is_known, is_fast;
    if (!is_known) is_fast = has_lanes(), is_known = 1;
    const int64_t width = rows->n_features;
    if (!is_fast || forest->sets.starts != NULL || rows->n_rows < LANES || width > MOST_LANED_FEATURES) return 0;
    int64_t most_nodes = 0;
    for (int64_t tree = 0; tree < forest->n_trees; tree++) {
        const int64_t n_nodes = forest->roots[tree + 1] - forest->roots[tree];
        most_nodes = n_nodes > most_nodes ? n_nodes : most_nodes;
    }
    if (most_nodes > MOST_LANED_NODES) return 0;
    int n_bits = 0;
    while (width > (int64_t)1 << n_bits) n_bits++;
    const int64_t height = tile_height(width * (int64_t)sizeof(float), LANED_BYTES);
    const int64_t most_rows = rows->n_rows < height ? rows->n_rows : height;
    /* Larger trees are not packed. */
    const int64_t most_packed = most_nodes < MOST_PACKED_FOR_ROW * most_rows ? most_nodes : MOST_PACKED_FOR_ROW * most_rows;
    uint32_t *listed = malloc((MOST_TILE_ROWS + LANES) * sizeof *listed);
    Places *ends = malloc(sizeof *ends);
    PackedNode *packed = calloc((size_t)most_packed + TOP_NODES + LANES, sizeof *packed);
    const int has_room = listed != NULL && ends != NULL && packed != NULL;
    for (int64_t start = 0; has_room && start < rows->n_rows; start += height) {
        const int64_t n_rows = rows->n_rows - start < height ? rows->n_rows - start : height;
        const float *tile = (const float *)rows->values + start * width;
        const int is_missing = forest->is_endless || has_missing_32(tile, n_rows * width);
        for (int64_t tree = 0; tree < forest->n_trees; tree++) {
            const int64_t root = forest->roots[tree], first = tree * rows->n_rows + start;
            const int64_t n_nodes = forest->roots[tree + 1] - root;
            const int64_t n_listed = list_rows(rows->wanted == NULL ? NULL : rows->wanted + first, n_rows, listed);
            const int is_packed = n_nodes <= MOST_PACKED_FOR_ROW * n_listed && can_pack(n_nodes, n_bits);
            const LanedTree own = {(const Node32 *)forest->nodes + root, is_packed ? packed : NULL, width, n_bits};
            if (is_packed) pack_nodes(&own, n_nodes);
            walk_lanes(&own, tile, listed, n_listed, is_missing, ends);
            write_ends(output, root, first, n_listed, ends);
        }
    }
    free(listed);
    free(ends);
    free(packed);
    return has_room;
}
#else
static int walk_by_lanes(const Rows *rows, const Forest *forest, const Output *output) {
    (void)rows, (void)forest, (void)output;
    return 0;
}
#endif
