/* An order of rows by the labels of their members, and the labels moved into it, as in core/sample.py of ens_plugin: the
 * same operations, so that places are the same to the bit. */

/* Rows whose places stay in a processor's cache. */
enum { PLACED = 1024 };

typedef struct {
    uint8_t *labels, *counted; /* by member and row; labels below 128 */
    int64_t n_members, n_rows;
} Labels;

static INLINE void place_rows(const Labels *own, const double *factors, double *places) {
    memset(places, 0, (size_t)own->n_rows * sizeof *places);
    for (int64_t start = 0; start < own->n_rows; start += PLACED) {
        const int64_t stop = own->n_rows - start < PLACED ? own->n_rows : start + PLACED;
        for (int64_t member = 0; member < own->n_members; member++) {
            const uint8_t *labels = own->labels + member * own->n_rows, *counted = own->counted + member * own->n_rows;
            const double factor = factors[member];
            for (int64_t row = start; row < stop; row++)
                places[row] += (double)(int)((labels[row] + 1u) & (0u - (uint32_t)(counted[row] != 0))) * factor;
        }
    }
}

static void place_plain(const Labels *own, const double *factors, double *places) { place_rows(own, factors, places); }

WIDE static void place_wide(const Labels *own, const double *factors, double *places) { place_rows(own, factors, places); }

/* A label, with whether it counts as the lowest bit. */
static INLINE uint8_t with_count(uint8_t label, uint8_t counted) { return (uint8_t)(label << 1 | (counted != 0)); }

/* Move the labels of a member, or of two, a byte each, which are looked up together. */
static INLINE void move_some(const Labels *own, int64_t member, int are_two, const int64_t *order, uint16_t *space) {
    const int64_t n_rows = own->n_rows;
    uint16_t *found = space + n_rows;
    uint8_t *labels = own->labels + member * n_rows, *counted = own->counted + member * n_rows;
    uint8_t *others = labels + are_two * n_rows, *others_counted = counted + are_two * n_rows;
    for (int64_t row = 0; row < n_rows; row++)
        space[row] = (uint16_t)(with_count(labels[row], counted[row]) |
                                with_count(others[row], others_counted[row]) << 8);
    for (int64_t row = 0; row < n_rows; row++) found[row] = space[order[row]];
    for (int64_t row = 0; row < n_rows; row++) labels[row] = (uint8_t)(found[row] & 0xff) >> 1;
    for (int64_t row = 0; row < n_rows; row++) counted[row] = found[row] & 1;
    for (int64_t row = 0; row < n_rows; row++) others[row] = (uint8_t)(found[row] >> 9);
    for (int64_t row = 0; row < n_rows; row++) others_counted[row] = found[row] >> 8 & 1;
}

static INLINE void move_all(const Labels *own, const int64_t *order, uint16_t *space) {
    for (int64_t member = 0; member < own->n_members; member += 2)
        move_some(own, member, member + 1 < own->n_members, order, space);
}

static void move_plain(const Labels *own, const int64_t *order, uint16_t *space) { move_all(own, order, space); }

WIDE static void move_wide(const Labels *own, const int64_t *order, uint16_t *space) { move_all(own, order, space); }
