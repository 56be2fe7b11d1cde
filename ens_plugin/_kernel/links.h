/* The nodes of a tree as a library keeps them, in arrays whose numbers may be far apart. */

/* One number of each node: whole numbers of 4 or 8 bytes, or others of a known type. */
typedef struct {
    const char *first;
    int64_t step, n_bytes;
} Column;

typedef struct {
    Column left, right, feature, threshold, missing_left;
    const int32_t *set;
    int64_t n_nodes, n_features, n_sets;
} Links;

typedef struct {
    double threshold;
    int32_t left, right;
    uint32_t feature; /* with the flag for missing values, which go to the first child of a leaf */
    uint8_t is_split, is_wrong;
} Link;

static INLINE int64_t whole_number(const Column *column, int64_t node) {
    const char *place = column->first + node * column->step;
    int32_t narrow;
    int64_t number;
    if (column->n_bytes == sizeof narrow) {
        memcpy(&narrow, place, sizeof narrow);
        return narrow;
    }
    memcpy(&number, place, sizeof number);
    return number;
}

/* Nodes in their own order, so that those that a library keeps far apart are read from memory once.  Which of them are
 * leaves cannot be foretold, so there are no branches.  Returns whether a split compares with NaN, up to which no value is. */
static int read_links(const Links *links, Link *of_nodes) {
    uint32_t is_endless = 0;
    const uint64_t infinite = UINT64_C(0x7ff0000000000000);
    for (int64_t node = 0; node < links->n_nodes; node++) {
        const int64_t left = whole_number(&links->left, node), right = whole_number(&links->right, node);
        const int64_t feature = whole_number(&links->feature, node);
        const uint32_t is_split = left >= 0, missing_left = links->missing_left.first[node * links->missing_left.step] != 0;
        const uint32_t is_known = (left < links->n_nodes) & (right >= 0) & (right < links->n_nodes) & (feature >= 0) &
                                  (feature < links->n_features);
        uint64_t threshold;
        memcpy(&threshold, links->threshold.first + node * links->threshold.step, sizeof threshold);
        is_endless |= is_split & ((threshold & ~(UINT64_C(1) << 63)) > infinite);
        threshold = (threshold & (0 - (uint64_t)is_split)) | (infinite & ((uint64_t)is_split - 1));
        Link *own = of_nodes + node;
        memcpy(&own->threshold, &threshold, sizeof threshold);
        own->left = (int32_t)left;
        own->right = (int32_t)right;
        own->feature = (((uint32_t)feature | missing_left << 31) & (0 - is_split)) | (MISSING_FIRST & (is_split - 1));
        own->is_split = (uint8_t)is_split;
        own->is_wrong = (uint8_t)(is_split & !is_known);
    }
    return is_endless != 0;
}

/* x <= threshold holds for the same x if the threshold is rounded down.  Which are rounded cannot be foretold. */
static INLINE float rounded_down_32(double threshold) {
    float rounded = (float)threshold;
    uint32_t bits;
    memcpy(&bits, &rounded, sizeof bits);
    bits += (uint32_t)((double)rounded > threshold) * (bits >> 31 ? 1u : ~0u);
    memcpy(&rounded, &bits, sizeof bits);
    return rounded;
}

static INLINE double rounded_down_64(double threshold) { return threshold; }
