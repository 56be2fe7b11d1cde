/* The rows that RandomState(seed).randint(0, n_rows, n_draws) draws: Mersenne Twister of 32 bits, of whose words the
 * lowest bits are taken, and again where they are no row. */

enum { STATE = 624, MIDDLE = 397 };

static void seed_twister(uint32_t *state, uint32_t seed) {
    for (uint32_t i = 0; i < STATE; i++) {
        state[i] = seed;
        seed = 1812433253u * (seed ^ seed >> 30) + i + 1;
    }
}

static INLINE uint32_t twisted(uint32_t high, uint32_t low, uint32_t other) {
    const uint32_t joined = (high & 0x80000000u) | (low & 0x7fffffffu);
    return other ^ joined >> 1 ^ ((0u - (joined & 1)) & 0x9908b0dfu);
}

static INLINE void next_words(uint32_t *state, uint32_t *words) {
    for (int i = 0; i < STATE - MIDDLE; i++) state[i] = twisted(state[i], state[i + 1], state[i + MIDDLE]);
    for (int i = STATE - MIDDLE; i < STATE - 1; i++)
        state[i] = twisted(state[i], state[i + 1], state[i + MIDDLE - STATE]);
    state[STATE - 1] = twisted(state[STATE - 1], state[0], state[MIDDLE - 1]);
    for (int i = 0; i < STATE; i++) {
        uint32_t word = state[i];
        word ^= word >> 11;
        word ^= word << 7 & 0x9d2c5680u;
        word ^= word << 15 & 0xefc60000u;
        words[i] = word ^ word >> 18;
    }
}

/* Set the bit of each row drawn, the first of eight rows highest; `bits` has room for every number up to the mask. */
static INLINE void draw_rows(uint32_t seed, uint32_t last, uint32_t mask, int64_t n_draws, uint8_t *bits) {
    uint32_t state[STATE], words[STATE];
    seed_twister(state, seed);
    for (int64_t n_left = n_draws; n_left > 0;) {
        next_words(state, words);
        for (int i = 0; i < STATE && n_left > 0; i++) {
            const uint32_t row = words[i] & mask, is_row = row <= last;
            bits[row >> 3] |= (uint8_t)(is_row << (7 - (row & 7)));
            n_left -= is_row;
        }
    }
}

static void draw_rows_plain(uint32_t seed, uint32_t last, uint32_t mask, int64_t n_draws, uint8_t *bits) {
    draw_rows(seed, last, mask, n_draws, bits);
}

WIDE static void draw_rows_wide(uint32_t seed, uint32_t last, uint32_t mask, int64_t n_draws, uint8_t *bits) {
    draw_rows(seed, last, mask, n_draws, bits);
}
