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
 * a positive score; members whose score is at least the sum. */
static INLINE void sum_scores(const Members *members, int64_t start, int width, double *sums) {
    double found[5][WIDTH] = {{0}}, mean[WIDTH];
    double *trials = found[0], *total = found[1], *squares = found[2], *positive = found[3], *deciding = found[4];
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
            deciding[i] += own[i] >= total[i] ? counts : 0.0;
        }
    }
    for (int column = 0; column < 5; column++)
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

/* Columns of sums, each row's true label, and where in a member's supports that and its rivals are: that of all members,
 * and those of the other half of the even and of the odd members. */
typedef struct {
    double found[7][WIDTH], mean[2][WIDTH], truth[WIDTH];
    int64_t true_at[WIDTH], rival_at[3][WIDTH];
} Margins;

/* Find the rivals of some rows, and their mean margins, from the supports of the even members, the odd, and all. */
static INLINE void find_rivals(const double *even, const double *odd, double *all, int64_t n_labels,
                               const int64_t *target, int width, int64_t step, Margins *margins) {
    const double *halves[] = {even, odd};
    for (int64_t cell = 0; cell < n_labels * WIDTH; cell++) all[cell] = even[cell] + odd[cell];
    for (int i = 0; i < width; i++) {
        const int64_t label = target[i];
        const int64_t rivals[] = {strongest_rival(all + i, n_labels, label), strongest_rival(odd + i, n_labels, label),
                                  strongest_rival(even + i, n_labels, label)};
        margins->truth[i] = (double)label;
        margins->true_at[i] = label * step + i;
        for (int place = 0; place < 3; place++) margins->rival_at[place][i] = rivals[place] * step + i;
        for (int crossed = 0; crossed < 2; crossed++) {
            double total = 0.0;
            for (int side = 0; side < 2; side++)
                total += halves[side][label * WIDTH + i] - halves[side][rivals[crossed ? 1 + side : 0] * WIDTH + i];
            margins->found[1 + 2 * crossed][i] = total;
            margins->mean[crossed][i] = total / at_least_one(margins->found[0][i]);
        }
    }
}

/* Add a member's part to the squared deviations, and whether its label is wrong, or not that of the others. */
static INLINE void add_member(const double *own, int64_t step, const double *all, int64_t n_labels,
                              const uint8_t *counted, const int64_t *crossed_at, int width, Margins *margins) {
    double best[WIDTH], label_of[WIDTH], best_of_others[WIDTH], label_of_others[WIDTH];
    for (int i = 0; i < width; i++) {
        best[i] = own[i];
        best_of_others[i] = all[i] - own[i];
        label_of[i] = label_of_others[i] = 0.0;
    }
    for (int64_t label = 1; label < n_labels; label++)
        for (int i = 0; i < width; i++) {
            const double here = own[label * step + i], others = all[label * WIDTH + i] - here;
            const double number = (double)label;
            label_of[i] = here > best[i] ? number : label_of[i];
            best[i] = here > best[i] ? here : best[i];
            label_of_others[i] = others > best_of_others[i] ? number : label_of_others[i];
            best_of_others[i] = others > best_of_others[i] ? others : best_of_others[i];
        }
    for (int i = 0; i < width; i++) {
        const double counts = counted[i];
        margins->found[5][i] += label_of[i] != margins->truth[i] ? counts : 0.0;
        margins->found[6][i] += label_of[i] != label_of_others[i] ? counts : 0.0;
    }
    for (int i = 0; i < width; i++) {
        const double counts = counted[i], support = own[margins->true_at[i]];
        const double one = (support - own[margins->rival_at[0][i]] - margins->mean[0][i]) * counts;
        const double other = (support - own[crossed_at[i]] - margins->mean[1][i]) * counts;
        margins->found[2][i] += one * one;
        margins->found[4][i] += other * other;
    }
}

/* Write to the columns of sums: members; the sum of margins and of squared deviations from their mean, then the same
 * where each half of the members has the rival of the other half; members whose label is wrong; members whose label is
 * not that of the others.  `space` holds 4 * n_labels * WIDTH numbers. */
static INLINE void sum_margins(const Members *members, const int64_t *target, int64_t start, int width, double *space,
                               double *sums) {
    const int64_t n_labels = members->n_labels, n_cells = n_labels * WIDTH;
    double *halves[] = {space, space + n_cells}, *all = space + 2 * n_cells, *copy = space + 3 * n_cells;
    const int64_t step = members->by_row == 1 ? members->by_label : WIDTH;
    Margins margins = {.found = {{0}}};
    memset(space, 0, 2 * (size_t)n_cells * sizeof(double));
    for (int64_t member = 0; member < members->n_members; member++) {
        const double *own = supports_of(members, member, start, width, copy);
        const uint8_t *counted = members->counted + member * members->n_rows + start;
        double *half = halves[member % 2];
        for (int i = 0; i < width; i++) margins.found[0][i] += (double)counted[i];
        for (int64_t label = 0; label < n_labels; label++)
            for (int i = 0; i < width; i++) half[label * WIDTH + i] += own[label * step + i] * (double)counted[i];
    }
    find_rivals(halves[0], halves[1], all, n_labels, target + start, width, step, &margins);
    for (int64_t member = 0; member < members->n_members; member++) {
        const double *own = supports_of(members, member, start, width, copy);
        const uint8_t *counted = members->counted + member * members->n_rows + start;
        add_member(own, step, all, n_labels, counted, margins.rival_at[1 + member % 2], width, &margins);
    }
    for (int column = 0; column < 7; column++)
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
