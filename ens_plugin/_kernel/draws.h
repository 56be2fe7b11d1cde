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

/* Rows of which so few are possible are marked by bytes, which takes less time than to set bits. */
enum { MOST_MARKS = 1 << 16, OF_MARK = 8 };

/* Set the bit of each row drawn, the first of eight rows highest; `bits` has room for every number up to the mask. */
static INLINE void draw_bits(uint32_t seed, uint32_t last, uint32_t mask, int64_t n_draws, uint8_t *bits) {
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

/* The same, from marks, which have room for every number up to the mask, eight of them at least. */
static INLINE void draw_marks(uint32_t seed, uint32_t last, uint32_t mask, int64_t n_draws, uint8_t *marks,
                              uint8_t *bits) {
    uint32_t state[STATE], words[STATE];
    memset(marks, 0, mask < OF_MARK ? OF_MARK : (size_t)mask + 1);
    seed_twister(state, seed);
    for (int64_t n_left = n_draws; n_left > 0;) {
        int32_t n_rows = 0;
        next_words(state, words);
        for (int i = 0; i < STATE; i++) {
            words[i] &= mask;
            n_rows += words[i] <= last;
        }
        /* What is no row is marked, too, and not read. */
        if (n_rows <= n_left)
            for (int i = 0; i < STATE; i++) marks[words[i]] = 1;
        else
            for (int i = 0; n_left > 0; i++) {
                marks[words[i]] = 1;
                n_left -= words[i] <= last;
            }
        n_left -= n_rows;
    }
    for (uint32_t row = last + 1; row & 7; row++) marks[row] = 0;
    for (uint32_t row = 0; row <= last; row += OF_MARK) {
        uint8_t byte = 0;
        for (int i = 0; i < OF_MARK; i++) byte |= (uint8_t)(marks[row + (uint32_t)i] << (7 - i));
        bits[row / OF_MARK] = byte;
    }
}

static INLINE void draw_rows(uint32_t seed, uint32_t last, uint32_t mask, int64_t n_draws, uint8_t *space,
                             uint8_t *bits) {
    const size_t n_bytes = last / 8 + 1;
    if (mask < MOST_MARKS) {
        draw_marks(seed, last, mask, n_draws, space, bits);
        return;
    }
    memset(space, 0, mask / 8 + 1);
    draw_bits(seed, last, mask, n_draws, space);
    memcpy(bits, space, n_bytes);
}

static void draw_rows_plain(uint32_t seed, uint32_t last, uint32_t mask, int64_t n_draws, uint8_t *space,
                            uint8_t *bits) {
    draw_rows(seed, last, mask, n_draws, space, bits);
}

WIDE static void draw_rows_wide(uint32_t seed, uint32_t last, uint32_t mask, int64_t n_draws, uint8_t *space,
                                uint8_t *bits) {
    draw_rows(seed, last, mask, n_draws, space, bits);
}
