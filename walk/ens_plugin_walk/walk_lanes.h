/* The walk of trees in single precision, 16 rows to the instruction, where the processor gathers fast; after walk_tree.h.
 * Rows that have reached a leaf are left out of the next steps, and their values written from a list. */

#if defined(__GNUC__) && defined(__x86_64__)
#include <cpuid.h>
#include <immintrin.h>

#define LANED __attribute__((target("avx512f,popcnt")))

/* Numbers in a vector; rows that step together, which keep the nodes of many apart. */
enum { LANES = 16, TOGETHER = 256, MOST_LANED_FEATURES = 1 << 20, MOST_LANED_NODES = 1 << 29 };

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

/* The nodes that follow those of 16 rows. */
LANED static INLINE __m512i next_nodes(const Node32 *tree, const float *rows, __m512i at, __m512i row, __m512i width,
                                       int is_missing) {
    const __m512i place = _mm512_add_epi32(at, _mm512_add_epi32(at, at)); /* a node is three words */
    const __m512i feature = _mm512_i32gather_epi32(place, &tree->feature, 4);
    const __m512i cell = _mm512_add_epi32(_mm512_mullo_epi32(row, width),
                                          _mm512_and_si512(feature, _mm512_set1_epi32(FEATURE)));
    const __m512 x = _mm512_i32gather_ps(cell, rows, 4);
    __mmask16 goes_second = _mm512_cmp_ps_mask(x, _mm512_i32gather_ps(place, &tree->threshold, 4), _CMP_NLE_UQ);
    if (is_missing) {
        const __mmask16 is_nan = _mm512_cmp_ps_mask(x, x, _CMP_UNORD_Q);
        goes_second &= (__mmask16)~_mm512_mask_cmplt_epi32_mask(is_nan, feature, _mm512_setzero_si512());
    }
    const __m512i first = _mm512_i32gather_epi32(place, &tree->first, 4);
    return _mm512_mask_add_epi32(first, goes_second, first, _mm512_set1_epi32(1));
}

/* Walk some rows, listed at `row`; write them with their leaves, in another order, and return behind the last. */
LANED static INLINE int64_t walk_some(const Node32 *tree, const float *rows, int64_t n_features, const uint32_t *listed,
                                      int64_t n_walking, int n_steps, int is_missing, Places *ends, int64_t n_ended) {
    uint32_t at[TOGETHER + LANES] = {0}, row[TOGETHER + LANES] = {0};
    const __m512i width = _mm512_set1_epi32((int)n_features);
    memcpy(row, listed, (size_t)n_walking * sizeof *row);
    while (n_walking) {
        for (int step = 1; step < n_steps; step++)
            for (int64_t i = 0; i < n_walking; i += LANES) {
                const __m512i here = _mm512_loadu_si512(at + i), own = _mm512_loadu_si512(row + i);
                _mm512_storeu_si512(at + i, next_nodes(tree, rows, here, own, width, is_missing));
            }
        int64_t n_left = 0;
        for (int64_t i = 0; i < n_walking; i += LANES) {
            const __m512i here = _mm512_loadu_si512(at + i), own = _mm512_loadu_si512(row + i);
            const __m512i next = next_nodes(tree, rows, here, own, width, is_missing);
            const __mmask16 is_row = n_walking - i >= LANES ? 0xffff : (__mmask16)((1u << (n_walking - i)) - 1);
            const __mmask16 stays = _mm512_mask_cmpneq_epi32_mask(is_row, here, next), ended = is_row & (__mmask16)~stays;
            put_lanes(ends->row + n_ended, ended, own);
            put_lanes(ends->at + n_ended, ended, next);
            n_ended += __builtin_popcount(ended);
            put_lanes(row + n_left, stays, own);
            put_lanes(at + n_left, stays, next);
            n_left += __builtin_popcount(stays);
        }
        n_walking = n_left;
        _mm512_storeu_si512(at + n_left, _mm512_setzero_si512()); /* a vector that is not full walks the tree too */
        _mm512_storeu_si512(row + n_left, _mm512_setzero_si512());
    }
    return n_ended;
}

LANED static void walk_lanes(const float *rows, int64_t n_features, const Node32 *tree, const uint32_t *listed,
                             int64_t n_listed, int is_missing, Places *ends) {
    const int n_levels = count_steps_32(tree), n_steps = n_levels ? n_levels : 1;
    int64_t n_ended = 0;
    for (int64_t start = 0; start < n_listed; start += TOGETHER) {
        const int64_t n_walking = n_listed - start < TOGETHER ? n_listed - start : TOGETHER;
        if (is_missing)
            n_ended = walk_some(tree, rows, n_features, listed + start, n_walking, n_steps, 1, ends, n_ended);
        else
            n_ended = walk_some(tree, rows, n_features, listed + start, n_walking, n_steps, 0, ends, n_ended);
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
    for (int64_t tree = 0; tree < forest->n_trees; tree++)
        if (forest->roots[tree + 1] - forest->roots[tree] > MOST_LANED_NODES) return 0;
    uint32_t *listed = malloc((MOST_TILE_ROWS + LANES) * sizeof *listed);
    Places *ends = malloc(sizeof *ends);
    const int64_t height = tile_height(width * (int64_t)sizeof(float));
    for (int64_t start = 0; listed != NULL && ends != NULL && start < rows->n_rows; start += height) {
        const int64_t n_rows = rows->n_rows - start < height ? rows->n_rows - start : height;
        const float *tile = (const float *)rows->values + start * width;
        const int is_missing = has_missing_32(tile, n_rows * width);
        for (int64_t tree = 0; tree < forest->n_trees; tree++) {
            const int64_t root = forest->roots[tree], first = tree * rows->n_rows + start;
            const int64_t n_listed = list_rows(rows->wanted == NULL ? NULL : rows->wanted + first, n_rows, listed);
            walk_lanes(tile, width, (const Node32 *)forest->nodes + root, listed, n_listed, is_missing, ends);
            write_ends(output, root, first, n_listed, ends);
        }
    }
    const int is_walked = listed != NULL && ends != NULL;
    free(listed);
    free(ends);
    return is_walked;
}
#else
static int walk_by_lanes(const Rows *rows, const Forest *forest, const Output *output) {
    (void)rows, (void)forest, (void)output;
    return 0;
}
#endif
