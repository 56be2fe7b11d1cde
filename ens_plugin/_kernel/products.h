/* Bits of the rows whose product with a number, modulo 2^63, is at most a bound: XGBoost draws rows so. */

/* Powers that stay in the cache while all words are multiplied with them; rows of a byte. */
enum { POWERS_AT_ONCE = 2048, OF_BYTE = 8 };

/* Twice the product modulo 2^64 is compared with twice the bound, so that its highest bit is lost by itself. */
static INLINE uint8_t product_bits(const uint64_t *powers, int64_t n_powers, uint64_t doubled, uint64_t bound) {
    uint8_t byte = 0;
    for (int64_t i = 0; i < n_powers; i++) byte |= (uint8_t)((powers[i] * doubled <= bound) << (OF_BYTE - 1 - i));
    return byte;
}

static void multiply_plain(const uint64_t *powers, int64_t n_bytes, uint64_t doubled, uint64_t bound, uint8_t *bits) {
    for (int64_t i = 0; i < n_bytes; i++) bits[i] = product_bits(powers + OF_BYTE * i, OF_BYTE, doubled, bound);
}

#if defined(__GNUC__) && defined(__x86_64__)
__attribute__((target("avx512f,avx512dq"))) static void multiply_laned(const uint64_t *powers, int64_t n_bytes,
                                                                       uint64_t doubled, uint64_t bound,
                                                                       uint8_t *bits) {
    const __m512i factor = _mm512_set1_epi64((long long)doubled), most = _mm512_set1_epi64((long long)bound);
    const __m512i reversed = _mm512_setr_epi64(7, 6, 5, 4, 3, 2, 1, 0);
    for (int64_t i = 0; i < n_bytes; i++) {
        const __m512i own = _mm512_permutexvar_epi64(reversed, _mm512_loadu_si512(powers + OF_BYTE * i));
        bits[i] = (uint8_t)_mm512_cmple_epu64_mask(_mm512_mullo_epi64(own, factor), most);
    }
}
#define HAS_PRODUCTS (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq"))
#else
#define multiply_laned multiply_plain
#define HAS_PRODUCTS 0
#endif

/* Set the bits of all rows for each word, the first of eight rows highest. */
static void multiply(const uint64_t *words, int64_t n_words, const uint64_t *powers, int64_t n_rows, uint64_t highest,
                     uint8_t *bits) {
    const int64_t n_bytes = (n_rows + OF_BYTE - 1) / OF_BYTE, n_left = n_rows % OF_BYTE;
    for (int64_t start = 0; start < n_rows; start += POWERS_AT_ONCE) {
        const int64_t n_own = n_rows - start < POWERS_AT_ONCE ? n_rows - start : POWERS_AT_ONCE;
        for (int64_t word = 0; word < n_words; word++) {
            uint8_t *own = bits + word * n_bytes + start / OF_BYTE;
            if (HAS_PRODUCTS)
                multiply_laned(powers + start, n_own / OF_BYTE, words[word] << 1, highest << 1, own);
            else
                multiply_plain(powers + start, n_own / OF_BYTE, words[word] << 1, highest << 1, own);
        }
    }
    for (int64_t word = 0; n_left && word < n_words; word++)
        bits[(word + 1) * n_bytes - 1] = product_bits(powers + n_rows - n_left, n_left, words[word] << 1, highest << 1);
}
