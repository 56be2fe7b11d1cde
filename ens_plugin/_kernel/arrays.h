/* Arrays as NumPy describes them by the protocol __array_struct__, which no release of it changes: many arrays are read in
 * one call, because Python takes longer to ask for an address than the kernel to read a small tree. */

typedef struct {
    int two, n_axes;
    char kind;
    int n_bytes, flags;
    Py_ssize_t *shape, *strides;
    void *first;
    PyObject *descr;
} ArrayInterface;

enum { NOT_SWAPPED = 0x200 };

/* Return whether an array holds `n` numbers of one of some kinds, in the processor's order of bytes; an error is set only
 * where memory is short.  The caller keeps a reference to the array, in a tuple that nobody can change. */
static int read_column(PyObject *array, const char *kinds, int64_t n, Column *column) {
    int is_line = 0;
    PyObject *capsule = array == NULL ? NULL : PyObject_GetAttrString(array, "__array_struct__");
    const ArrayInterface *own = capsule == NULL ? NULL : PyCapsule_GetPointer(capsule, NULL);
    if (own != NULL && own->two == 2) {
        is_line = own->n_axes == 1 && own->shape[0] == n && own->flags & NOT_SWAPPED && strchr(kinds, own->kind) != NULL;
        if (is_line) *column = (Column){own->first, own->strides[0], own->n_bytes};
    }
    Py_XDECREF(capsule);
    if (PyErr_Occurred() && !PyErr_ExceptionMatches(PyExc_MemoryError)) PyErr_Clear();
    return is_line;
}

static int read_whole(PyObject *array, int64_t n, Column *column) {
    return read_column(array, "i", n, column) && (column->n_bytes == 4 || column->n_bytes == 8);
}

/* Read the arrays of a tree: its children, columns, thresholds, flags and, of six, the sets of its nodes. */
static int read_tree(PyObject *arrays, Links *links) {
    Column columns[6];
    if (!PyTuple_Check(arrays)) return 0;
    const Py_ssize_t n_arrays = PyTuple_Size(arrays);
    if (n_arrays != 5 && n_arrays != 6) return 0;
    for (int i = 0; i < 3; i++)
        if (!read_whole(PyTuple_GetItem(arrays, i), links->n_nodes, &columns[i])) return 0;
    if (!read_column(PyTuple_GetItem(arrays, 3), "f", links->n_nodes, &columns[3]) || columns[3].n_bytes != 8) return 0;
    if (!read_column(PyTuple_GetItem(arrays, 4), "bu", links->n_nodes, &columns[4]) || columns[4].n_bytes != 1) return 0;
    links->left = columns[0], links->right = columns[1], links->feature = columns[2];
    links->threshold = columns[3], links->missing_left = columns[4];
    links->set = NULL;
    if (n_arrays == 5) return 1;
    if (!read_whole(PyTuple_GetItem(arrays, 5), links->n_nodes, &columns[5])) return 0;
    if (columns[5].n_bytes != 4 || columns[5].step != 4) return 0;
    links->set = (const int32_t *)columns[5].first;
    return 1;
}

#define FILL(TYPE)                                                                                     \
    for (int64_t node = 0; node < n_nodes; node++)                                                      \
        memcpy(into + node * (int64_t)sizeof(TYPE), values->first + order[node] * values->step, sizeof(TYPE));

/* Write the numbers of a tree's nodes in another order. */
static void fill_table(const Column *values, const int32_t *order, int64_t n_nodes, char *into) {
    switch (values->n_bytes) {
    case 1: FILL(uint8_t) break;
    case 2: FILL(uint16_t) break;
    case 4: FILL(uint32_t) break;
    case 8: FILL(uint64_t) break;
    }
}
