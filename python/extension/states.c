/* states: what a module keeps from call to call (compile(states=..)). Each function works on one run: of a module, or
 * of a Bound. */
#include "core.h"
#include <string.h>

static PyObject *failed(ek_run *r, ek_code code) { return fail(code, ek_run_message(r)); }
/* reset(name=None) */
PyObject *states_reset(ek_run *r, PyObject *args) {
  const char *name = NULL;
  if (!PyArg_ParseTuple(args, "|z", &name)) return NULL;
  ek_code code = ek_run_reset(r, name);
  return code ? failed(r, code) : Py_NewRef(Py_None);
}
static PyObject *shape_of(const ek_array *a) {
  PyObject *t = PyTuple_New(a->rank);
  for (int32_t i = 0; t && i < a->rank; i++) {
    PyObject *n = PyLong_FromLongLong(a->dims[i]);
    if (!n || PyTuple_SetItem(t, i, n)) Py_CLEAR(t);
  }
  return t;
}
PyObject *array_copy(const tensor *t, const ek_array *a) {
  value v;
  PyObject *shape = shape_of(a), *array = shape ? value_new(t, shape, &v) : NULL;
  Py_XDECREF(shape);
  if (!array) return NULL;
  if (a->bytes) memcpy(v.data, a->data, a->bytes);
  value_release(&v);
  if (t->view_type) replace(&array, PyObject_CallMethod(array, "view", "O", t->view_type));
  return array;
}
/* snapshot() -> a dict of new arrays by name */
PyObject *states_snapshot(module_object *m, ek_run *r) {
  PyObject *all = PyDict_New();
  for (int32_t i = 0; all && i < m->nstate; i++) {
    ek_array a;
    ek_tensor_info info;
    ek_module_state(m->code, i, &info); /* the name as the library has it, which need not be UTF-8 */
    ek_code code = ek_run_snapshot(r, info.name, &a);
    PyObject *array = code ? failed(r, code) : array_copy(&m->state[i], &a);
    if (!array || PyDict_SetItem(all, m->state[i].name, array)) Py_CLEAR(all);
    Py_XDECREF(array);
  }
  return all;
}
static bool restore_one(module_object *m, int32_t i, ek_run *r, PyObject *array) {
  const tensor *t = &m->state[i];
  value v;
  ek_tensor_info info;
  ek_module_state(m->code, i, &info);
  if (!value_input(t, array, &v)) return false;
  size_t bytes = ek_type_bytes(t->type);
  for (int32_t d = 0; d < v.rank; d++) bytes *= (size_t)v.dims[d];
  ek_code code = ek_run_restore(r, info.name, v.data, bytes, v.dims, v.rank);
  value_release(&v);
  return !code || failed(r, code);
}
/* restore(states): a dict of arrays by name; states that it has not stay as they are */
PyObject *states_restore(module_object *m, ek_run *r, PyObject *dict) {
  if (!PyDict_Check(dict)) return PyErr_SetString(PyExc_TypeError, "restore: a dict by name is expected"), NULL;
  PyObject *name, *array;
  for (Py_ssize_t at = 0; PyDict_Next(dict, &at, &name, &array);) {
    int32_t i = 0;
    while (i < m->nstate && PyUnicode_Compare(m->state[i].name, name) != 0) i++;
    if (PyErr_Occurred()) return NULL;
    if (i == m->nstate) return PyErr_Format(PyExc_ValueError, "state %R: there is none of that name", name), NULL;
    if (!restore_one(m, i, r, array)) return NULL;
  }
  Py_RETURN_NONE;
}
