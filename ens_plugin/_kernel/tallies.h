/* Sums over the members that count, by row.  Members are added one after the other, as NumPy does in
 * core/tally.py, so that the results are the same to the bit. */

/* Rows that are tallied together: what all members predict for them is still in the cache when it is read again. */
enum { WIDTH = 32 };

typedef struct {
    const double *outputs;
    const uint8_t *counted;
    int64_t n_members, n_rows, n_labels;
    int64_t by_member, by_row, by_label; /* steps from one output to the next */
} Members;

static INLINE double at_least_one(double count) { return count > 1.0 ? count : 1.0; }

/* Write to the columns of sums: members; the sum of their scores and of squared deviations from the mean; members with
 * a positive score. */
static INLINE void sum_scores(const Members *members, int64_t start, int width, double *sums) {
    double found[4][WIDTH] = {{0}}, mean[WIDTH];
    double *trials = found[0], *total = found[1], *squares = found[2], *positive = found[3];
    for (int64_t member = 0; member < members->n_members; member++) {
        const double *own = members->outputs + member * members->by_member + start;
        const uint8_t *counted = members->counted + member * members->n_rows + start;
        for (int i = 0; i < width; i++) {
            const double counts = counted[i];
            trials[i] += counts;
            total[i] += own[i] * counts;
            positive[i] += own[i] > 0.0 ? counts : 0.0;
        }
    }
    for (int i = 0; i < width; i++) mean[i] = total[i] / at_least_one(trials[i]);
    for (int64_t member = 0; member < members->n_members; member++) {
        const double *own = members->outputs + member * members->by_member + start;
        const uint8_t *counted = members->counted + member * members->n_rows + start;
        for (int i = 0; i < width; i++) {
            const double counts = counted[i], deviation = (own[i] - mean[i]) * counts;
            squares[i] += deviation * deviation;
        }
    }
    for (int column = 0; column < 4; column++)
        memcpy(sums + column * members->n_rows + start, found[column], (size_t)width * sizeof(double));
}

/* The first label other than the true one with the largest support; supports of a row are WIDTH apart. */
static int64_t strongest_rival(const double *support, int64_t n_labels, int64_t target) {
    int64_t rival = target == 0;
    for (int64_t label = rival + 1; label < n_labels; label++)
        if (label != target && support[label * WIDTH] > support[rival * WIDTH]) rival = label;
    return rival;
}

/* A member's supports of some rows, by label; copied if rows are not next to each other. */
static INLINE const double *supports_of(const Members *members, int64_t member, int64_t start, int width,
                                        double *space) {
    const double *first = members->outputs + member * members->by_member + start * members->by_row;
    if (members->by_row == 1) return first;
    for (int i = 0; i < width; i++)
        for (int64_t label = 0; label < members->n_labels; label++)
            space[label * WIDTH + i] = first[label * members->by_label + i * members->by_row];
    return space;
}

/* Columns of sums, mean margins, each row's true label, and where in a member's supports that and its rival are. */
typedef struct {
    double found[4][WIDTH], mean[WIDTH], truth[WIDTH];
    int64_t true_at[WIDTH], rival_at[WIDTH];
} Margins;

/* Find the rivals of some rows, and their mean margins, from the supports of all members. */
static INLINE void find_rivals(const double *all, int64_t n_labels, const int64_t *target, int width, int64_t step,
                               Margins *margins) {
    for (int i = 0; i < width; i++) {
        const int64_t label = target[i], rival = strongest_rival(all + i, n_labels, label);
        margins->truth[i] = (double)label;
        margins->true_at[i] = label * step + i;
        margins->rival_at[i] = rival * step + i;
        margins->found[1][i] = all[label * WIDTH + i] - all[rival * WIDTH + i];
        margins->mean[i] = margins->found[1][i] / at_least_one(margins->found[0][i]);
    }
}

/* Add a member's part to the squared deviations, and whether its label is wrong. */
static INLINE void add_member(const double *own, int64_t step, int64_t n_labels, const uint8_t *counted, int width,
                              Margins *margins) {
    double best[WIDTH], label_of[WIDTH] = {0};
    for (int i = 0; i < width; i++) best[i] = own[i];
    for (int64_t label = 1; label < n_labels; label++)
        for (int i = 0; i < width; i++) {
            const double here = own[label * step + i], number = (double)label;
            label_of[i] = here > best[i] ? number : label_of[i];
            best[i] = here > best[i] ? here : best[i];
        }
    for (int i = 0; i < width; i++) {
        const double counts = counted[i];
        const double deviation = (own[margins->true_at[i]] - own[margins->rival_at[i]] - margins->mean[i]) * counts;
        margins->found[2][i] += deviation * deviation;
        margins->found[3][i] += label_of[i] != margins->truth[i] ? counts : 0.0;
    }
}

/* Write to the columns of sums: members; the sum of margins and of squared deviations from their mean; members whose
 * label is wrong.  `space` holds 2 * n_labels * WIDTH numbers. */
static INLINE void sum_margins(const Members *members, const int64_t *target, int64_t start, int width, double *space,
                               double *sums) {
    const int64_t n_labels = members->n_labels, n_cells = n_labels * WIDTH;
    double *all = space, *copy = space + n_cells;
    const int64_t step = members->by_row == 1 ? members->by_label : WIDTH;
    Margins margins = {.found = {{0}}};
    memset(all, 0, (size_t)n_cells * sizeof(double));
    for (int64_t member = 0; member < members->n_members; member++) {
        const double *own = supports_of(members, member, start, width, copy);
        const uint8_t *counted = members->counted + member * members->n_rows + start;
        for (int i = 0; i < width; i++) margins.found[0][i] += (double)counted[i];
        for (int64_t label = 0; label < n_labels; label++)
            for (int i = 0; i < width; i++) all[label * WIDTH + i] += own[label * step + i] * (double)counted[i];
    }
    find_rivals(all, n_labels, target + start, width, step, &margins);
    for (int64_t member = 0; member < members->n_members; member++) {
        const double *own = supports_of(members, member, start, width, copy);
        add_member(own, step, n_labels, members->counted + member * members->n_rows + start, width, &margins);
    }
    for (int column = 0; column < 4; column++)
        memcpy(sums + column * members->n_rows + start, margins.found[column], (size_t)width * sizeof(double));
}

/* Rows that do not fill a block are few: only blocks get loops of a length that the compiler knows. */
static INLINE void sum_rows(const Members *members, const int64_t *target, double *space, double *sums) {
    for (int64_t start = 0; start < members->n_rows; start += WIDTH) {
        const int64_t n_left = members->n_rows - start;
        if (target == NULL && n_left >= WIDTH)
            sum_scores(members, start, WIDTH, sums);
        else if (target == NULL)
            sum_scores(members, start, (int)n_left, sums);
        else if (n_left >= WIDTH)
            sum_margins(members, target, start, WIDTH, space, sums);
        else
            sum_margins(members, target, start, (int)n_left, space, sums);
    }
}

WIDE static void sum_rows_wide(const Members *members, const int64_t *target, double *space, double *sums) {
    sum_rows(members, target, space, sums);
}

static void tally_rows(const Members *members, const int64_t *target, double *space, double *sums) {
    if (HAS_WIDE)
        sum_rows_wide(members, target, space, sums);
    else
        sum_rows(members, target, space, sums);
}
