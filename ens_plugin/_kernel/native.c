/* The leaves that rows reach in trees.  Only the stable ABI of Python is used, and NumPy not at all: arrays arrive as
 * addresses, which forest.py takes from arrays whose types and sizes it has checked. */

#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

/* Rows that step together; steps until those at a leaf are sorted out; levels of a tree that all rows step through;
 * bytes of the features of rows, which stay in the cache while all trees walk them. */
enum { BLOCK = 64, STEPS = 4, MOST_LEVELS = 8, TILE_BYTES = 1 << 18, MOST_TILE_ROWS = 1 << 14 };

#define MISSING_FIRST 0x80000000u /* flags of a node: a missing value goes to the first child */
#define IS_SET 0x40000000u        /* categories of a set go to the first child */
#define FEATURE 0x3fffffffu

enum { NO_NODE = -1 }; /* first child, in place of a node that no path leads to */

typedef struct {
    const void *values;
    const uint8_t *wanted; /* NULL for all */
    int64_t n_rows, n_features;
} Rows;

typedef struct {
    const uint32_t *words;
    const int64_t *starts; /* NULL if no split is by category */
    double least;          /* the smallest number that is a category */
} Sets;

typedef struct {
    const void *nodes;
    const int64_t *roots;
    int64_t n_trees;
    Sets sets;
    int is_endless; /* some threshold is NaN, up to which no value is */
} Forest;

/* As malloc, and NULL where so many things have no size. */
static void *room_for(int64_t n_things, size_t size) {
    if (n_things < 0 || (uint64_t)n_things >= SIZE_MAX / 2 / size) return NULL;
    return malloc((size_t)n_things * size + 1);
}

typedef struct {
    const char *table; /* what to write for each node */
    char *values;
    int64_t n_bytes;
} Output;

/* The sums of trees' values that settle a row, at some numbers of trees; any sum does at the last. */
typedef struct {
    const double *values; /* of each node */
    const int64_t *checkpoints;
    const double *lower, *upper;
    int64_t n_checkpoints;
} Stops;

static int64_t tile_height(int64_t bytes_per_row, int64_t n_bytes) {
    const int64_t height = n_bytes / bytes_per_row;
    return height < BLOCK ? BLOCK : height > MOST_TILE_ROWS ? MOST_TILE_ROWS : height;
}

#define WRITE(TYPE)                                                     \
    {                                                                   \
        const TYPE *table = (const TYPE *)output->table + root;         \
        TYPE *values = (TYPE *)output->values + first;                  \
        for (int64_t row = 0; row < n_rows; row++)                      \
            if (wanted == NULL || wanted[row]) values[row] = table[reached[row]]; \
        return;                                                         \
    }

static void write_output(const Output *output, int64_t root, int64_t first, int64_t n_rows, const uint8_t *wanted,
                         const int32_t *reached) {
    switch (output->n_bytes) {
    case 1: WRITE(uint8_t)
    case 2: WRITE(uint16_t)
    case 4: WRITE(uint32_t)
    case 8: WRITE(uint64_t)
    }
}

/* Sums are the same to the bit as NumPy's: no compiler may contract a * b + c. */
#if defined(__clang__)
#pragma STDC FP_CONTRACT OFF
#elif defined(__GNUC__)
#pragma GCC optimize("fp-contract=off", "no-trapping-math") /* else it does not vectorise comparisons */
#elif defined(_MSC_VER)
#pragma fp_contract(off)
#endif

#include "slices.h"
#include "links.h"
#include "arrays.h"

#define REAL float
#define NODE Node32
#define NAMED(name) name##_32
#include "walk_tree.h"
#include "slice_rows.h"
#include "stop_rows.h"
#include "walk_lanes.h"
#undef REAL
#undef NODE
#undef NAMED

#define REAL double
#define NODE Node64
#define NAMED(name) name##_64
#include "walk_tree.h"
#include "slice_rows.h"
#include "stop_rows.h"

#include "tallies.h"
#include "class_trees.h"
#include "draws.h"
#include "products.h"
#include "votes.h"
#include "pairs.h"
#include "labels.h"
#include "orders.h"

#define AT(address) ((void *)(uintptr_t)(address))

static PyObject *address(PyObject *Py_UNUSED(self), PyObject *array) {
    PyObject *capsule = PyObject_GetAttrString(array, "__array_struct__");
    if (capsule == NULL) return NULL;
    const ArrayInterface *stated = PyCapsule_GetPointer(capsule, NULL);
    PyObject *found = stated == NULL ? NULL : PyLong_FromVoidPtr(stated->first);
    Py_DECREF(capsule);
    return found;
}

static PyObject *put_trees(PyObject *Py_UNUSED(self), PyObject *arguments) {
    PyObject *trees, *visit;
    unsigned long long roots, nodes, order, space;
    long long n_features, n_sets;
    int is_double, is_endless = 0;
    if (!PyArg_ParseTuple(arguments, "O!OKLLpKKK", &PyTuple_Type, &trees, &visit, &roots, &n_features, &n_sets,
                          &is_double, &nodes, &order, &space))
        return NULL;
    const int64_t *starts = AT(roots);
    for (Py_ssize_t tree = 0; tree < PyTuple_Size(trees); tree++) {
        const int64_t start = starts[tree];
        int64_t found;
        Links links = {.n_nodes = starts[tree + 1] - start, .n_features = n_features, .n_sets = n_sets};
        if (links.n_nodes < 1 || !read_tree(PyTuple_GetItem(trees, tree), &links))
            return PyErr_Occurred() ? NULL
                                    : PyErr_Format(PyExc_ValueError, "the arrays of tree %zd do not have one entry for each node", tree);
        Py_BEGIN_ALLOW_THREADS
        is_endless |= read_links(&links, AT(space));
        found = is_double ? put_tree_64(&links, AT(space), (Node64 *)AT(nodes) + start, (int32_t *)AT(order) + start)
                          : put_tree_32(&links, AT(space), (Node32 *)AT(nodes) + start, (int32_t *)AT(order) + start);
        Py_END_ALLOW_THREADS
        if (found < 0)
            return PyErr_Format(PyExc_ValueError, "the links of tree %zd do not lead from its root to leaves", tree);
        if (visit != Py_None) {
            PyObject *number = PyLong_FromSsize_t(tree);
            PyObject *seen = number == NULL ? NULL : PyObject_CallFunctionObjArgs(visit, number, NULL);
            Py_XDECREF(number);
            if (seen == NULL) return NULL;
            Py_DECREF(seen);
        }
    }
    return PyBool_FromLong(is_endless);
}

static PyObject *fill_tables(PyObject *Py_UNUSED(self), PyObject *arguments) {
    PyObject *values;
    const char *kind;
    unsigned long long roots, order, table;
    long long n_bytes;
    if (!PyArg_ParseTuple(arguments, "O!sLKKK", &PyTuple_Type, &values, &kind, &n_bytes, &roots, &order, &table))
        return NULL;
    const int64_t *starts = AT(roots);
    for (Py_ssize_t tree = 0; tree < PyTuple_Size(values); tree++) {
        const int64_t start = starts[tree], n_nodes = starts[tree + 1] - start;
        Column own;
        if (!read_column(PyTuple_GetItem(values, tree), kind, n_nodes, &own) || own.n_bytes != n_bytes)
            return PyErr_Occurred() ? NULL
                                    : PyErr_Format(PyExc_ValueError, "the numbers of tree %zd are not one for each node", tree);
        fill_table(&own, (const int32_t *)AT(order) + start, n_nodes, (char *)AT(table) + start * n_bytes);
    }
    Py_RETURN_NONE;
}

static PyObject *walk(PyObject *Py_UNUSED(self), PyObject *arguments) {
    unsigned long long values, wanted, nodes, roots, words, starts, table, outputs;
    long long n_rows, n_features, n_trees, n_bytes;
    double least;
    int is_double, is_endless;
    if (!PyArg_ParseTuple(arguments, "KKLLpKKLKKdpKKL", &values, &wanted, &n_rows, &n_features, &is_double, &nodes,
                          &roots, &n_trees, &words, &starts, &least, &is_endless, &table, &outputs, &n_bytes))
        return NULL;
    const Rows rows = {AT(values), AT(wanted), n_rows, n_features};
    const Forest forest = {AT(nodes), AT(roots), n_trees, {AT(words), AT(starts), least}, is_endless};
    const Output output = {AT(table), AT(outputs), n_bytes};
    int32_t *reached = malloc(MOST_TILE_ROWS * sizeof *reached);
    if (reached == NULL) return PyErr_NoMemory();
    Py_BEGIN_ALLOW_THREADS
    if (is_double)
        walk_64(&rows, &forest, &output, reached);
    else if (!walk_by_lanes(&rows, &forest, &output))
        walk_32(&rows, &forest, &output, reached);
    Py_END_ALLOW_THREADS
    free(reached);
    Py_RETURN_NONE;
}

static PyObject *stop(PyObject *Py_UNUSED(self), PyObject *arguments) {
    unsigned long long values, nodes, roots, words, starts, table, checkpoints, lower, upper, totals, queries;
    long long n_rows, n_features, n_trees, n_checkpoints;
    double least;
    int is_double;
    if (!PyArg_ParseTuple(arguments, "KL(LpKKLKKd)(KKKKL)KK", &values, &n_rows, &n_features, &is_double, &nodes, &roots,
                          &n_trees, &words, &starts, &least, &table, &checkpoints, &lower, &upper, &n_checkpoints,
                          &totals, &queries))
        return NULL;
    const Rows rows = {AT(values), NULL, n_rows, n_features};
    const Forest forest = {AT(nodes), AT(roots), n_trees, {AT(words), AT(starts), least}, 1};
    const Stops stops = {AT(table), AT(checkpoints), AT(lower), AT(upper), n_checkpoints};
    Py_BEGIN_ALLOW_THREADS
    if (is_double)
        stop_rows_64(&rows, &forest, &stops, AT(totals), AT(queries));
    else
        stop_rows_32(&rows, &forest, &stops, AT(totals), AT(queries));
    Py_END_ALLOW_THREADS
    Py_RETURN_NONE;
}

static PyObject *slice(PyObject *Py_UNUSED(self), PyObject *arguments) {
    unsigned long long values, wanted, cuts, cut_starts, splits, split_starts, leaves, leaf_starts, codes, turns;
    unsigned long long turn_starts, roots, table, outputs, bits, bag_of, in_bag, all, scores, starts, out, columns, reached;
    long long n_rows, n_features, n_trees, n_bytes, n_bag_bytes, n_out_bytes;
    int is_double;
    if (!PyArg_ParseTuple(arguments, "KKLLp(KKKKKKKKK)L(KKKL)(KKLKK)(KKKLKK)", &values, &wanted, &n_rows, &n_features, &is_double,
                          &cuts, &cut_starts, &splits, &split_starts, &leaves, &leaf_starts, &codes, &turns,
                          &turn_starts, &n_trees, &roots, &table, &outputs, &n_bytes, &bits, &bag_of, &n_bag_bytes,
                          &in_bag, &all, &scores, &starts, &out, &n_out_bytes, &columns,
                          &reached))
        return NULL;
    const Rows rows = {AT(values), AT(wanted), n_rows, n_features};
    const Slices slices = {AT(cuts), AT(cut_starts), AT(splits), AT(split_starts), AT(leaves), AT(leaf_starts),
                           AT(codes), AT(turns), AT(turn_starts)};
    const Trees trees = {AT(roots), n_trees};
    const Output output = {AT(table), AT(outputs), n_bytes};
    const Counts counts = {AT(bits), AT(bag_of), n_bag_bytes, AT(in_bag), AT(all)};
    Space *space = new_space(slices.cut_starts[n_features], n_features);
    ScoreSums sums = {AT(scores), AT(starts), AT(out), n_out_bytes, n_rows, AT(columns), AT(reached), NULL, NULL, NULL};
    const int has_room = !scores || make_room(&sums, n_trees);
    if (space == NULL || !has_room) {
        if (space != NULL) free(space->room);
        free(sums.scores);
        return PyErr_NoMemory();
    }
    Py_BEGIN_ALLOW_THREADS
    if (is_double)
        slice_64(&rows, &slices, &trees, &output, &counts, &sums, space);
    else
        slice_32(&rows, &slices, &trees, &output, &counts, &sums, space);
    Py_END_ALLOW_THREADS
    free(space->room);
    free(sums.scores);
    Py_RETURN_NONE;
}

static PyObject *number(PyObject *Py_UNUSED(self), PyObject *arguments) {
    unsigned long long splits, split_starts, leaves, leaf_starts, codes, turns, turn_starts;
    long long n_trees;
    if (!PyArg_ParseTuple(arguments, "KKKKLKKK", &splits, &split_starts, &leaves, &leaf_starts, &n_trees, &codes, &turns,
                          &turn_starts))
        return NULL;
    const int64_t *of_splits = AT(split_starts), *of_leaves = AT(leaf_starts);
    uint8_t nearest[MOST_LEAVES]; /* codes by the number of their bits */
    int n_nearest = 0;
    for (int n_bits = 1; n_bits <= PLANES; n_bits++)
        for (int code = 1; code < MOST_LEAVES; code++)
            if (COUNT_BITS((uint64_t)code) == n_bits) nearest[n_nearest++] = (uint8_t)code;
    int64_t n_turns = 0, *ends = AT(turn_starts);
    ends[0] = 0;
    for (int64_t tree = 0; tree < n_trees; tree++) {
        int64_t *own = ends + PLANES * tree + 1;
        const int64_t n_found = number_leaves(
            (const Split *)AT(splits) + of_splits[tree], of_splits[tree + 1] - of_splits[tree],
            (const int32_t *)AT(leaves) + of_leaves[tree], of_leaves[tree + 1] - of_leaves[tree], nearest,
            (uint8_t *)AT(codes) + of_leaves[tree], (uint16_t *)AT(turns) + n_turns, own);
        for (int bit = 0; bit < PLANES; bit++) own[bit] += n_turns;
        n_turns += n_found;
    }
    Py_RETURN_NONE;
}

/* Rows whose queues are filled together. */
enum { STRIP = 32 };

/* Values by member and row; or by member and leaf, with the leaf of each member and row. */
typedef struct {
    const double *values;
    const uint8_t *leaves; /* NULL for values by row */
    const uint8_t *taken, *filled;
    int64_t n_members, n_rows, n_leaves, stride;
} Queues;

/* Each row's values that are taken go into a queue, in order, from which the places that are filled are served.  Returns
 * the number of rows with more of these. */
static INLINE int serve_strip(const Queues *queues, int64_t start, int width, double *queue, double *outputs) {
    int32_t place[STRIP], end[STRIP];
    int n_short = 0;
    memset(queue, 0, (size_t)(queues->n_members + 1) * STRIP * sizeof *queue);
    for (int i = 0; i < width; i++) place[i] = i;
    /* A value that is not taken is written over by the next. */
    for (int64_t member = 0; member < queues->n_members; member++) {
        const int64_t own = member * queues->n_rows + start;
        const double *of_leaf = queues->values + member * queues->n_leaves;
        for (int i = 0; i < width; i++) {
            queue[place[i]] = queues->leaves == NULL ? queues->values[own + i] : of_leaf[queues->leaves[own + i]];
            place[i] += STRIP * queues->taken[own + i];
        }
    }
    for (int i = 0; i < width; i++) end[i] = place[i], place[i] = i;
    for (int64_t member = 0; member < queues->n_members; member++) {
        const int64_t own = member * queues->n_rows + start;
        for (int i = 0; i < width; i++) {
            outputs[member * queues->stride + start + i] = queue[place[i]];
            place[i] += STRIP * queues->filled[own + i];
        }
    }
    for (int i = 0; i < width; i++) n_short += place[i] > end[i];
    return n_short;
}

static INLINE int64_t serve_rows(const Queues *queues, double *queue, double *outputs) {
    int64_t n_short = 0;
    for (int64_t start = 0; start < queues->n_rows; start += STRIP)
        if (queues->n_rows - start >= STRIP)
            n_short += serve_strip(queues, start, STRIP, queue, outputs);
        else
            n_short += serve_strip(queues, start, (int)(queues->n_rows - start), queue, outputs);
    return n_short;
}

WIDE static int64_t serve_wide(const Queues *queues, double *queue, double *outputs) {
    return serve_rows(queues, queue, outputs);
}

static PyObject *serve(PyObject *Py_UNUSED(self), PyObject *arguments) {
    unsigned long long values, leaves, taken, filled, outputs;
    long long n_members, n_rows, n_leaves, stride, n_short;
    if (!PyArg_ParseTuple(arguments, "KKKKLLLLK", &values, &leaves, &taken, &filled, &n_members, &n_rows, &n_leaves,
                          &stride, &outputs))
        return NULL;
    const Queues queues = {AT(values), AT(leaves), AT(taken), AT(filled), n_members, n_rows, n_leaves, stride};
    double *queue = room_for(n_members + 1, STRIP * sizeof *queue);
    if (queue == NULL) return PyErr_NoMemory();
    Py_BEGIN_ALLOW_THREADS
    n_short = HAS_WIDE ? serve_wide(&queues, queue, AT(outputs)) : serve_rows(&queues, queue, AT(outputs));
    Py_END_ALLOW_THREADS
    free(queue);
    return PyLong_FromLongLong(n_short);
}

static PyObject *tally(PyObject *Py_UNUSED(self), PyObject *arguments) {
    unsigned long long outputs, counted, target, sums;
    long long n_members, n_rows, n_labels, by_member, by_row, by_label;
    if (!PyArg_ParseTuple(arguments, "KK(LLL)(LLL)KK", &outputs, &counted, &n_members, &n_rows, &n_labels, &by_member,
                          &by_row, &by_label, &target, &sums))
        return NULL;
    const Members members = {AT(outputs), AT(counted), n_members, n_rows, n_labels, by_member, by_row, by_label};
    double *space = room_for(n_labels, 2 * WIDTH * sizeof *space);
    if (space == NULL) return PyErr_NoMemory();
    Py_BEGIN_ALLOW_THREADS
    tally_rows(&members, AT(target), space, AT(sums));
    Py_END_ALLOW_THREADS
    free(space);
    Py_RETURN_NONE;
}

static PyObject *tally_classes(PyObject *Py_UNUSED(self), PyObject *arguments) {
    unsigned long long values, leaves, bits, target, sums;
    long long n_labels, n_trees, n_rows, n_leaves, n_bytes;
    if (!PyArg_ParseTuple(arguments, "KKK(LLLLL)KK", &values, &leaves, &bits, &n_labels, &n_trees, &n_rows, &n_leaves,
                          &n_bytes, &target, &sums))
        return NULL;
    const ClassTrees trees = {AT(values), AT(leaves), AT(bits), n_labels, n_trees, n_rows, n_leaves, n_bytes};
    ClassSpace space;
    if (!make_class_space(&trees, &space)) return PyErr_NoMemory();
    Py_BEGIN_ALLOW_THREADS
    if (HAS_WIDE)
        sum_classes_wide(&trees, AT(target), &space, AT(sums));
    else
        sum_classes(&trees, AT(target), &space, AT(sums));
    Py_END_ALLOW_THREADS
    free(space.supports);
    Py_RETURN_NONE;
}

static PyObject *draw(PyObject *Py_UNUSED(self), PyObject *arguments) {
    unsigned long long seeds, drawn;
    long long n_members, n_rows, n_draws;
    if (!PyArg_ParseTuple(arguments, "KLLLK", &seeds, &n_members, &n_rows, &n_draws, &drawn)) return NULL;
    const uint32_t last = (uint32_t)(n_rows - 1);
    uint32_t mask = 0;
    while (mask < last) mask = mask << 1 | 1;
    const size_t n_bytes = (size_t)(n_rows + 7) / 8;
    uint8_t *space = malloc(mask < MOST_MARKS ? MOST_MARKS : (size_t)mask / 8 + 1);
    if (space == NULL) return PyErr_NoMemory();
    Py_BEGIN_ALLOW_THREADS
    for (int64_t member = 0; member < n_members; member++) {
        const uint32_t seed = ((const uint32_t *)AT(seeds))[member];
        uint8_t *bits = (uint8_t *)AT(drawn) + (size_t)member * n_bytes;
        if (HAS_WIDE)
            draw_rows_wide(seed, last, mask, n_draws, space, bits);
        else
            draw_rows_plain(seed, last, mask, n_draws, space, bits);
    }
    Py_END_ALLOW_THREADS
    free(space);
    Py_RETURN_NONE;
}

static PyObject *compare_products(PyObject *Py_UNUSED(self), PyObject *arguments) {
    unsigned long long words, powers, highest, bits;
    long long n_words, n_rows;
    if (!PyArg_ParseTuple(arguments, "KLKLKK", &words, &n_words, &powers, &n_rows, &highest, &bits)) return NULL;
    Py_BEGIN_ALLOW_THREADS
    multiply(AT(words), n_words, AT(powers), n_rows, highest, AT(bits));
    Py_END_ALLOW_THREADS
    Py_RETURN_NONE;
}

static PyObject *label(PyObject *Py_UNUSED(self), PyObject *arguments) {
    unsigned long long values, left, labels;
    long long step, n_bytes, n_nodes, n_labels, n_written;
    int found;
    if (!PyArg_ParseTuple(arguments, "K(KLL)LLKL", &values, &left, &step, &n_bytes, &n_nodes, &n_labels, &labels,
                          &n_written))
        return NULL;
    const Column links = {AT(left), step, n_bytes};
    Py_BEGIN_ALLOW_THREADS
    found = label_leaves(AT(values), &links, n_nodes, n_labels, AT(labels), n_written);
    Py_END_ALLOW_THREADS
    return PyBool_FromLong(found);
}

static PyObject *elect_by_subset(PyObject *Py_UNUSED(self), PyObject *arguments) {
    unsigned long long votes, places, of_true, wrong;
    long long n_members, n_rows, n_slots, n_subsets, size;
    int base;
    if (!PyArg_ParseTuple(arguments, "KKK(LLLLL)iK", &votes, &places, &of_true, &n_members, &n_rows, &n_slots,
                          &n_subsets, &size, &base, &wrong))
        return NULL;
    const Election election = {AT(votes), AT(places), AT(of_true), n_members, n_rows, n_slots, n_subsets, size, base};
    int32_t *space = room_for(n_slots, VOTERS * sizeof *space);
    if (space == NULL) return PyErr_NoMemory();
    Py_BEGIN_ALLOW_THREADS
    if (HAS_WIDE)
        elect_all_wide(&election, space, AT(wrong));
    else
        elect_all(&election, space, AT(wrong));
    Py_END_ALLOW_THREADS
    free(space);
    Py_RETURN_NONE;
}

static PyObject *pair_votes(PyObject *Py_UNUSED(self), PyObject *arguments) {
    unsigned long long votes[2], counted[2], slopes[2], sums;
    long long n_rows[2], n_members, freedom;
    int is_same;
    if (!PyArg_ParseTuple(arguments, "(KKK)L(KKK)LLpK", &votes[0], &counted[0], &slopes[0], &n_rows[0], &votes[1],
                          &counted[1], &slopes[1], &n_rows[1], &n_members, &is_same, &sums))
        return NULL;
    const int64_t words_of_row = VOTE_PLANES * ((n_members + 63) / 64);
    /* One word more, so that there is a size without members too. */
    uint64_t *bits = room_for(n_rows[0] + n_rows[1], (size_t)(words_of_row + 1) * sizeof *bits);
    int32_t *found = room_for(n_rows[1], 4 * sizeof *found);
    if (bits == NULL || found == NULL) {
        free(bits);
        free(found);
        return PyErr_NoMemory();
    }
    const Voters first = {AT(votes[0]), AT(counted[0]), AT(slopes[0]), bits, n_rows[0]};
    const Voters second = {AT(votes[1]), AT(counted[1]), AT(slopes[1]), bits + n_rows[0] * words_of_row, n_rows[1]};
    const Pairs pairs = {first, is_same ? first : second, n_members, is_same};
    double *columns = AT(sums);
    Py_BEGIN_ALLOW_THREADS
    freedom = HAS_WIDE ? sum_pairs_wide(&pairs, found, columns, columns + n_rows[1])
                       : sum_pairs_plain(&pairs, found, columns, columns + n_rows[1]);
    Py_END_ALLOW_THREADS
    free(bits);
    free(found);
    return PyLong_FromLongLong(freedom);
}

static PyObject *block_pairs(PyObject *Py_UNUSED(self), PyObject *arguments) {
    unsigned long long votes, counted, chosen, starts, slopes, place, sums, freedoms;
    long long n_members, n_rows, n_blocks;
    if (!PyArg_ParseTuple(arguments, "KKLLKKLKKKK", &votes, &counted, &n_members, &n_rows, &chosen, &starts, &n_blocks,
                          &slopes, &place, &sums, &freedoms))
        return NULL;
    Blocks blocks = {AT(votes), AT(counted), n_members, n_rows, AT(chosen), AT(starts),
                     n_blocks, AT(slopes), AT(place), NULL};
    const int64_t n_chosen = blocks.starts[n_blocks], n_words = (n_members + 63) / 64;
    int64_t *space = room_for(n_chosen, sizeof *space);
    int32_t *found = room_for(n_chosen, 4 * sizeof *found);
    uint8_t *bytes = malloc(TOGETHER_IN_BYTE * VOTE_PLANES * PACKED_ROWS);
    blocks.bits = room_for(n_chosen, (size_t)(VOTE_PLANES * n_words + 1) * sizeof *blocks.bits);
    const int has_room = space != NULL && found != NULL && bytes != NULL && blocks.bits != NULL;
    if (has_room) {
        Py_BEGIN_ALLOW_THREADS
        (counts_many() ? sum_blocks_widest : HAS_WIDE ? sum_blocks_wide : sum_blocks_plain)(
            &blocks, space, bytes, found, AT(sums), AT(freedoms));
        Py_END_ALLOW_THREADS
    }
    free(space);
    free(found);
    free(bytes);
    free(blocks.bits);
    if (!has_room) return PyErr_NoMemory();
    Py_RETURN_NONE;
}

static PyObject *place(PyObject *Py_UNUSED(self), PyObject *arguments) {
    unsigned long long labels, counted, factors, places;
    long long n_members, n_rows;
    if (!PyArg_ParseTuple(arguments, "KKLLKK", &labels, &counted, &n_members, &n_rows, &factors, &places)) return NULL;
    const Labels own = {AT(labels), AT(counted), n_members, n_rows};
    Py_BEGIN_ALLOW_THREADS
    if (HAS_WIDE)
        place_wide(&own, AT(factors), AT(places));
    else
        place_plain(&own, AT(factors), AT(places));
    Py_END_ALLOW_THREADS
    Py_RETURN_NONE;
}

static PyObject *move_labels(PyObject *Py_UNUSED(self), PyObject *arguments) {
    unsigned long long labels, counted, order;
    long long n_members, n_rows;
    if (!PyArg_ParseTuple(arguments, "KKLLK", &labels, &counted, &n_members, &n_rows, &order)) return NULL;
    const Labels own = {AT(labels), AT(counted), n_members, n_rows};
    uint16_t *space = room_for(n_rows, 2 * sizeof *space);
    if (space == NULL) return PyErr_NoMemory();
    Py_BEGIN_ALLOW_THREADS
    if (HAS_WIDE)
        move_wide(&own, AT(order), space);
    else
        move_plain(&own, AT(order), space);
    Py_END_ALLOW_THREADS
    free(space);
    Py_RETURN_NONE;
}

static PyMethodDef functions[] = {
    {"address", address, METH_O, "Return where an array is in memory, in a tenth of the time of its attribute ctypes."},
    {"put_trees", put_trees, METH_VARARGS, "Write the nodes of each tree breadth first; return whether one compares with NaN."},
    {"fill_tables", fill_tables, METH_VARARGS, "Write a number for each node of each tree, breadth first."},
    {"walk", walk, METH_VARARGS, "Write the entry of a table for the leaf that each row reaches in each tree."},
    {"slice", slice, METH_VARARGS, "The same by bits; or count rows by leaf, or add up values."},
    {"number", number, METH_VARARGS, "Give leaves the codes by which rows are numbered."},
    {"stop", stop, METH_VARARGS, "Sum the values of trees in turn until they settle each row."},
    {"tally", tally, METH_VARARGS, "Sum scores, or with a target margins, over the members that count of each row."},
    {"tally_classes", tally_classes, METH_VARARGS, "The same, where each label has trees and bags of its own."},
    {"draw", draw, METH_VARARGS, "Set the bits of the rows that NumPy's generator of each seed draws."},
    {"products", compare_products, METH_VARARGS, "Set the bits of the rows whose products with each word are small."},
    {"label", label, METH_VARARGS, "Write the label of each leaf; return whether each has one of probability 1."},
    {"elect", elect_by_subset, METH_VARARGS, "Count the subsets of the members that elect a wrong slot, or another one."},
    {"pair_votes", pair_votes, METH_VARARGS, "Sum the covariances of the votes on pairs of rows."},
    {"place", place, METH_VARARGS, "Sum the labels that count of each row, times the factors of their members."},
    {"move_labels", move_labels, METH_VARARGS, "Put labels, and which of them count, into another order of the rows."},
    {"block_pairs", block_pairs, METH_VARARGS, "The same on pairs of rows of each of some blocks of rows."},
    {"serve", serve, METH_VARARGS, "Copy the values that are taken of each row, in order, to the places to fill."},
    {NULL, NULL, 0, NULL},
};

static PyModuleDef_Slot slots[] = {{0, NULL}};

static struct PyModuleDef module = {
    PyModuleDef_HEAD_INIT, "ens_plugin._kernel.native", NULL, 0, functions, slots, NULL, NULL, NULL,
};

PyMODINIT_FUNC PyInit_native(void) { return PyModuleDef_Init(&module); }
