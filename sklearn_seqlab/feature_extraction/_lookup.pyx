# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
# cython: initializedcheck=False, freethreading_compatible=True
"""Names of attributes to columns: the common kinds of steps, without a call of Python for each name.

What is rare (a str of a class of one's own, an iterator, a number of NumPy's) and what is wrong is left to Python code,
which says so in words: `AttributeTable.add` then takes the whole sequence back and returns False.

A vocabulary of hundreds of thousands of names lies in main memory, and so do the names of the input: a look-up in a
dict waits six times for memory. Here names are looked up some hundred at a time, in stages of which each asks for
the memory that the next one reads.
"""
from cpython.dict cimport PyDict_GetItemWithError, PyDict_Next, PyDict_SetItem
from cpython.list cimport PyList_CheckExact, PyList_GET_ITEM, PyList_GET_SIZE
from cpython.long cimport PyLong_AsLongLong
from cpython.object cimport PyObject, PyObject_Hash
from cpython.tuple cimport PyTuple_CheckExact, PyTuple_GET_ITEM, PyTuple_GET_SIZE
from libc.math cimport isfinite
from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t, uint64_t
from libc.stdlib cimport calloc, free, malloc, realloc
from libc.string cimport memcmp, memcpy, memmove

import numpy as np

cdef extern from "Python.h":
    void *PyUnicode_DATA(object text)
    int PyUnicode_KIND(object text)
    Py_ssize_t PyUnicode_GET_LENGTH(object text)
    double PyFloat_AS_DOUBLE(object number)

cdef extern from *:
    """
    #if defined(__GNUC__) || defined(__clang__)
    #define seqlab_prefetch(address) __builtin_prefetch(address)
    #else
    #define seqlab_prefetch(address) ((void)(address))
    #endif
    #ifdef Py_GIL_DISABLED
    #define SEQLAB_BORROWS 0
    #else
    #define SEQLAB_BORROWS 1
    #endif
    """
    bint BORROWS "SEQLAB_BORROWS"   # without the interpreter lock, what is borrowed may go: Python reads it all
    void prefetch "seqlab_prefetch"(const void *address) noexcept nogil

cdef type numpy_str = np.str_
cdef type numpy_float = np.float64
cdef enum:
    AT_ONCE = 512               # names that are looked up together: their memory fits the second cache


cdef struct Slot:
    uint64_t hash
    uint32_t place              # of the name in the text, in units of 8 bytes
    int32_t column              # -1 where the slot is free


cdef inline bint is_plain(object name) noexcept:
    """Whether an object is a str, or one of NumPy's, which hash and compare alike."""
    return type(name) is str or type(name) is numpy_str


cdef class NameTable:
    """A vocabulary to look up many names at once: a copy, which later changes of the dict do not reach.

    Raises
    ------
    ValueError
        If a name is no plain str, or a column not an int from 0 to ``len(vocabulary) - 1``.
    """

    cdef Slot *slots
    cdef uint8_t *text          # of each name its kind and length (8 bytes), and its characters
    cdef uint64_t mask

    def __cinit__(self, dict vocabulary not None):
        cdef Py_ssize_t size = 8, length, place = 0
        cdef PyObject *key
        cdef PyObject *value
        cdef Py_ssize_t at = 0
        cdef uint64_t hash, i
        cdef int64_t column, n = len(vocabulary)
        if not BORROWS:
            raise ValueError("There is no table without the interpreter lock.")
        while 2 * size < 3 * n + 2:
            size *= 2
        while PyDict_Next(vocabulary, &at, &key, &value):
            if not is_plain(<object>key) or type(<object>value) is not int:
                raise ValueError("The vocabulary is no dict of str to int.")
            place += 1 + (PyUnicode_GET_LENGTH(<object>key) * PyUnicode_KIND(<object>key) + 7) // 8
        if place >= 1 << 32 or n >= 1 << 31:
            raise ValueError("The vocabulary is too large.")
        self.mask = size - 1
        self.slots = <Slot *>malloc(size * sizeof(Slot))
        self.text = <uint8_t *>calloc(place + 1, 8)
        if self.slots == NULL or self.text == NULL:
            raise MemoryError
        for i in range(<uint64_t>size):
            self.slots[i].column = -1
        at, place = 0, 0
        while PyDict_Next(vocabulary, &at, &key, &value):
            column = PyLong_AsLongLong(<object>value)
            if not 0 <= column < n:
                raise ValueError("The vocabulary has a column that is out of range.")
            hash = <uint64_t>PyObject_Hash(<object>key)
            i = spread(hash) & self.mask
            while self.slots[i].column >= 0:
                i = (i + 1) & self.mask
            self.slots[i] = Slot(hash, <uint32_t>place, <int32_t>column)
            length = PyUnicode_GET_LENGTH(<object>key) * PyUnicode_KIND(<object>key)
            (<uint64_t *>(self.text + 8 * place))[0] = signature(<object>key)
            memcpy(self.text + 8 * place + 8, PyUnicode_DATA(<object>key), length)
            place += 1 + (length + 7) // 8

    def __dealloc__(self):
        free(self.slots)
        free(self.text)

    cdef void find(self, PyObject **names, uint64_t *hashes, int32_t *columns, Py_ssize_t n) noexcept:
        """Columns of names whose hashes are known; -1 for one that is not in the table."""
        cdef Py_ssize_t k
        cdef uint64_t i
        for k in range(n):
            prefetch(&self.slots[spread(hashes[k]) & self.mask])
        for k in range(n):
            i = spread(hashes[k]) & self.mask
            while self.slots[i].column >= 0 and self.slots[i].hash != hashes[k]:
                i = (i + 1) & self.mask
            columns[k] = <int32_t>self.slots[i].column
            if columns[k] >= 0:
                prefetch(self.text + 8 * <Py_ssize_t>self.slots[i].place)
        for k in range(n):
            if columns[k] < 0:
                continue
            i = spread(hashes[k]) & self.mask
            while self.slots[i].column >= 0 and not (
                self.slots[i].hash == hashes[k] and self.is_at(<object>names[k], self.slots[i].place)
            ):
                i = (i + 1) & self.mask
            columns[k] = self.slots[i].column

    cdef inline bint is_at(self, object name, Py_ssize_t place) noexcept:
        cdef const uint8_t *text = self.text + 8 * place
        return (<const uint64_t *>text)[0] == signature(name) and not memcmp(
            text + 8, PyUnicode_DATA(name), PyUnicode_GET_LENGTH(name) * PyUnicode_KIND(name)
        )


cdef inline uint64_t spread(uint64_t hash) noexcept nogil:
    return hash ^ (hash >> 32)


cdef inline uint64_t signature(object name) noexcept:
    return <uint64_t>PyUnicode_GET_LENGTH(name) * 8 + <uint64_t>PyUnicode_KIND(name)


cdef class AttributeTable:
    """Attributes of steps that are added one sequence after the other.

    Parameters
    ----------
    separator : str
        Stands between a name and its text value.
    vocabulary : dict of str to int, or None where there is a table
    growing : bool
        Whether a new name gets the next column, or -1.
    names : NameTable or None
        The same vocabulary as a table.
    """

    cdef str separator
    cdef object vocabulary
    cdef bint growing
    cdef NameTable names
    cdef list made                  # owns the names that are made here
    cdef int32_t *columns           # of all attributes
    cdef double *values             # NULL while all of them are 1
    cdef Py_ssize_t *ends           # of the attributes of each step
    cdef Py_ssize_t n_attributes, n_steps, room_attributes, room_steps
    cdef PyObject **waiting         # names of the last steps, still to be looked up
    cdef double *weight             # their values
    cdef uint64_t *hashes
    cdef Py_ssize_t n_waiting, room_waiting

    def __cinit__(self, str separator not None, vocabulary, bint growing, NameTable names=None):
        if not isinstance(vocabulary, dict) and names is None:
            raise TypeError("vocabulary is no dict.")
        self.separator, self.vocabulary, self.growing, self.names = separator, vocabulary, growing, names
        self.made = []

    def __dealloc__(self):
        free(self.columns)
        free(self.values)
        free(self.ends)
        free(self.waiting)
        free(self.weight)
        free(self.hashes)

    @property
    def n_total(self):
        """Number of steps so far."""
        return self.n_steps

    def add(self, sequence):
        """Add the steps of a list or tuple; False, and nothing is added, if one of them is for Python to read."""
        cdef Py_ssize_t t, n, n_attributes = self.n_attributes, n_steps = self.n_steps
        cdef bint is_list = PyList_CheckExact(sequence)
        if not BORROWS or not is_list and not PyTuple_CheckExact(sequence):
            return False
        # no code of others runs in here, so that nothing that is borrowed can go
        n = PyList_GET_SIZE(sequence) if is_list else PyTuple_GET_SIZE(sequence)
        for t in range(n):
            prefetch(<void *>(PyList_GET_ITEM(sequence, t) if is_list else PyTuple_GET_ITEM(sequence, t)))
        for t in range(n):
            if not self.read(<object>(PyList_GET_ITEM(sequence, t) if is_list else PyTuple_GET_ITEM(sequence, t))):
                break
            if self.n_steps == self.room_steps:
                self.room_steps = 2 * self.room_steps + 64
                self.ends = <Py_ssize_t *>resized(self.ends, self.room_steps * sizeof(Py_ssize_t))
            self.ends[self.n_steps] = self.n_attributes + self.n_waiting
            self.n_steps += 1
            if self.n_waiting >= AT_ONCE and not self.look_up():
                break
        else:
            if self.look_up():
                return True
        self.n_waiting, self.n_attributes, self.n_steps = 0, n_attributes, n_steps
        self.made.clear()
        return False

    def extend(self, const int32_t[::1] columns, const double[::1] values, const Py_ssize_t[::1] counts):
        """Add a sequence whose columns and values are known; ``counts`` (n_timesteps,) are those of its steps."""
        cdef Py_ssize_t k
        self.reserve(columns.shape[0])
        for k in range(columns.shape[0]):
            self.put(self.n_attributes + k, columns[k], values[k])
        if self.n_steps + counts.shape[0] > self.room_steps:
            self.room_steps = 2 * self.room_steps + counts.shape[0]
            self.ends = <Py_ssize_t *>resized(self.ends, self.room_steps * sizeof(Py_ssize_t))
        for k in range(counts.shape[0]):
            self.n_attributes += counts[k]
            self.ends[self.n_steps + k] = self.n_attributes
        self.n_steps += counts.shape[0]

    def arrays(self):
        """Columns (n_attributes,), values of the same length, and ends (n_steps + 1,) of the steps."""
        columns = np.empty(self.n_attributes, dtype=np.int32)
        values = np.ones(self.n_attributes)
        indptr = np.zeros(self.n_steps + 1, dtype=np.intp)
        cdef int32_t[::1] out = columns
        cdef double[::1] values_out = values
        cdef Py_ssize_t[::1] ends = indptr
        if self.n_attributes:
            memcpy(&out[0], self.columns, self.n_attributes * sizeof(int32_t))
            if self.values != NULL:
                memcpy(&values_out[0], self.values, self.n_attributes * sizeof(double))
        if self.n_steps:
            memcpy(&ends[1], self.ends, self.n_steps * sizeof(Py_ssize_t))
        return columns, values, indptr

    cdef bint read(self, object step) except -1:
        """Put the attributes of a step among those that wait; False for one that is for Python to read."""
        cdef Py_ssize_t at = 0
        cdef PyObject *key
        cdef PyObject *value
        cdef double number
        if PyList_CheckExact(step) or PyTuple_CheckExact(step):
            return self.read_names(step, None)
        if type(step) is set or type(step) is frozenset:
            for name in step:
                self.wait(name, 1.0)
            return True
        if type(step) is not dict:
            return False
        while PyDict_Next(step, &at, &key, &value):
            name, content = <object>key, <object>value
            if type(name) is not str:
                return False
            if type(content) is str:
                self.wait(self.joined(name, content), 1.0)
            elif type(content) is float or type(content) is numpy_float:
                number = PyFloat_AS_DOUBLE(content)
                if not isfinite(number):
                    return False
                self.wait(name, number)
            elif type(content) is bool:
                self.wait(name, 1.0 if content is True else 0.0)
            elif type(content) is int:
                if not -(1 << 53) <= content <= 1 << 53:
                    return False
                self.wait(name, <double>content)
            elif PyList_CheckExact(content) or PyTuple_CheckExact(content):
                if not self.read_names(content, name):
                    return False
            elif content is not None:
                return False
        return True

    cdef bint read_names(self, object items, object name) except -1:
        """The str of a list or tuple, as values of a name if there is one."""
        cdef bint is_list = PyList_CheckExact(items)
        cdef Py_ssize_t k, n = PyList_GET_SIZE(items) if is_list else PyTuple_GET_SIZE(items)
        cdef PyObject *item
        if self.n_waiting + n > self.room_waiting:
            self.make_room(n)
        for k in range(n):
            item = <PyObject *>(PyList_GET_ITEM(items, k) if is_list else PyTuple_GET_ITEM(items, k))
            if name is not None:
                if type(<object>item) is not str:
                    return False
                self.wait(self.joined(name, <object>item), 1.0)
                continue
            prefetch(item)
            prefetch(<char *>item + 64)
            self.waiting[self.n_waiting] = item
            self.weight[self.n_waiting] = 1.0
            self.n_waiting += 1
        return True

    cdef object joined(self, str name, str content):
        text = name + self.separator + content
        self.made.append(text)
        return text

    cdef int wait(self, object name, double value) except -1:
        if self.n_waiting == self.room_waiting:
            self.make_room(1)
        self.waiting[self.n_waiting] = <PyObject *>name
        self.weight[self.n_waiting] = value
        self.n_waiting += 1
        return 0

    cdef int make_room(self, Py_ssize_t n) except -1:
        self.room_waiting = 2 * self.room_waiting + n + AT_ONCE
        self.waiting = <PyObject **>resized(self.waiting, self.room_waiting * sizeof(PyObject *))
        self.weight = <double *>resized(self.weight, self.room_waiting * sizeof(double))
        self.hashes = <uint64_t *>resized(self.hashes, self.room_waiting * sizeof(uint64_t))
        return 0

    cdef bint look_up(self) except -1:
        """Find the columns of the names that wait; False if one is no plain str."""
        cdef Py_ssize_t k, n = self.n_waiting
        cdef object name
        cdef PyObject *found
        cdef int64_t column
        self.reserve(n)
        for k in range(n):
            if not is_plain(<object>self.waiting[k]):
                return False
            self.hashes[k] = <uint64_t>PyObject_Hash(<object>self.waiting[k])
        if self.names is not None:
            self.names.find(self.waiting, self.hashes, self.columns + self.n_attributes, n)
        else:
            for k in range(n):
                name = <object>self.waiting[k]
                found = PyDict_GetItemWithError(self.vocabulary, name)
                if found != NULL:
                    column = PyLong_AsLongLong(<object>found)
                    if not 0 <= column < len(self.vocabulary):
                        raise ValueError(f"The vocabulary has {name!r} in column {column}, which is out of range.")
                elif self.growing:
                    column = len(self.vocabulary)
                    if column >= (1 << 31) - 1:
                        raise ValueError("The input has more than 2147483646 different attributes.")
                    PyDict_SetItem(self.vocabulary, name, column)
                else:
                    column = -1
                self.columns[self.n_attributes + k] = <int32_t>column
        for k in range(n):
            if self.values != NULL or self.weight[k] != 1.0:
                self.put(self.n_attributes + k, self.columns[self.n_attributes + k], self.weight[k])
        self.n_attributes += n
        self.n_waiting = 0
        self.made.clear()
        return True

    cdef int reserve(self, Py_ssize_t n) except -1:
        """Room for ``n`` more attributes."""
        if self.n_attributes + n <= self.room_attributes:
            return 0
        self.room_attributes = 2 * self.room_attributes + n + AT_ONCE
        self.columns = <int32_t *>resized(self.columns, self.room_attributes * sizeof(int32_t))
        if self.values != NULL:
            self.values = <double *>resized(self.values, self.room_attributes * sizeof(double))
        return 0

    cdef int put(self, Py_ssize_t place, int32_t column, double value) except -1:
        cdef Py_ssize_t k
        self.columns[place] = column
        if self.values == NULL:
            if value == 1.0:
                return 0
            self.values = <double *>resized(NULL, self.room_attributes * sizeof(double))
            for k in range(place):
                self.values[k] = 1.0
        self.values[place] = value
        return 0


cdef void *resized(void *memory, size_t size) except NULL:
    memory = realloc(memory, size)
    if memory == NULL:
        raise MemoryError
    return memory


def tidy_rows(
    int32_t[::1] columns,               # INOUT (n_attributes,), -1 where an attribute is left out
    double[::1] values,                 # INOUT (n_attributes,)
    const Py_ssize_t[::1] ends,         # IN    (n_total + 1,)
    int32_t[::1] indptr,                # OUT   (n_total + 1,)
):
    """Sort every row and add what has one column; in place, closed up. Quadratic in the length of a row.

    Returns the number of entries that are left.
    """
    cdef Py_ssize_t t, k, i, start, stop = 0
    cdef int32_t column
    cdef double value
    with nogil:
        indptr[0] = 0
        for t in range(ends.shape[0] - 1):
            start = stop
            for k in range(ends[t], ends[t + 1]):
                column, value = columns[k], values[k]
                if column < 0:
                    continue
                i = stop
                while i > start and columns[i - 1] > column:
                    i -= 1
                if i > start and columns[i - 1] == column:
                    values[i - 1] += value
                    continue
                memmove(&columns[i] + 1, &columns[i], (stop - i) * sizeof(int32_t))
                memmove(&values[i] + 1, &values[i], (stop - i) * sizeof(double))
                columns[i], values[i] = column, value
                stop += 1
            indptr[t + 1] = <int32_t>stop
    return stop
