/* core: the module einkorn._core: its types, the functions that need no model, and exceptions. */
#include "core.h"
#include <string.h>

static PyObject *errors[EK_CANCELLED + 1]; /* the exception of each code; einkorn/_errors.py */

PyObject *text_of(const char *s) {
  return s ? PyUnicode_DecodeUTF8(s, (Py_ssize_t)strlen(s), "replace") : Py_NewRef(Py_None);
}
void *fail(ek_code code, const char *text) {
  if (PyErr_Occurred()) return NULL; /* by a callback: it says more */
  if (code == EK_CANCELLED && PyErr_CheckSignals()) return NULL;
  PyObject *type = code > 0 && code <= EK_CANCELLED ? errors[code] : NULL;
  if (!text || !*text) text = ek_code_name(code);
  PyObject *s = text_of(text), *f = s ? helper("plain") : NULL;
  PyObject *plain = f ? PyObject_CallFunctionObjArgs(f, s, NULL) : NULL;
  if (plain) PyErr_SetObject(type ? type : PyExc_RuntimeError, plain);
  Py_XDECREF(s);
  Py_XDECREF(plain);
  return NULL;
}
PyObject *helper(const char *name) {
  static PyObject *module;
  if (!module && !(module = PyImport_ImportModule("einkorn._arrays"))) return NULL;
  PyObject *f = PyObject_GetAttrString(module, name);
  Py_XDECREF(f); /* the module keeps it */
  return f;
}
PyObject *numpy_empty(void) {
  static PyObject *empty;
  if (empty) return empty;
  PyObject *numpy = PyImport_ImportModule("numpy");
  if (numpy) empty = PyObject_GetAttrString(numpy, "empty");
  Py_XDECREF(numpy);
  return empty;
}

/* ---- functions --------------------------------------------------------------------------------- */
static PyObject *set_errors(PyObject *self, PyObject *list) { /* the exceptions, by code */
  (void)self;
  for (Py_ssize_t i = 0; i <= EK_CANCELLED; i++) {
    PyObject *e = PySequence_GetItem(list, i);
    if (!e) return NULL;
    replace(&errors[i], e);
  }
  Py_RETURN_NONE;
}
static PyObject *version(PyObject *self, PyObject *none) {
  return (void)self, (void)none, PyUnicode_FromString(ek_version());
}
static PyObject *llvm_path(PyObject *self, PyObject *none) {
  return (void)self, (void)none, PyUnicode_FromString(ek_llvm_path());
}
static PyObject *threads(PyObject *self, PyObject *none) {
  return (void)self, (void)none, PyLong_FromLong(ek_threads());
}
/* ops(definitions): all operators, those of the list of (name, text or None) included, as (name, signature, doc, file,
 * line) */
static PyObject *list_ops(ek_session *s) {
  const ek_op_info *ops;
  size_t n;
  ek_code code = ek_ops(s, &ops, &n);
  if (code) return fail(code, ek_message(s));
  PyObject *list = PyList_New(0);
  for (size_t i = 0; list && i < n; i++) {
    PyObject *row =
        Py_BuildValue("(ssssI)", ops[i].name, ops[i].signature, ops[i].doc ? ops[i].doc : "", ops[i].file, ops[i].line);
    if (!row || PyList_Append(list, row)) Py_CLEAR(list);
    Py_XDECREF(row);
  }
  return list;
}
bool ops_load(ek_session *s, PyObject *definitions) {
  Py_ssize_t n = definitions == Py_None ? 0 : PySequence_Size(definitions);
  for (Py_ssize_t i = 0; i < n; i++) {
    PyObject *row = PySequence_GetItem(definitions, i);
    const char *name, *text;
    Py_ssize_t bytes = 0;
    bool read = row && PyArg_ParseTuple(row, "sz#", &name, &text, &bytes);
    Py_XDECREF(row); /* the list keeps it */
    if (!read) return false;
    ek_code code = text ? ek_load_ops_memory(s, text, (size_t)bytes, name) : ek_load_ops(s, name);
    if (code) return fail(code, ek_message(s)), false;
  }
  return n >= 0;
}
static PyObject *ops(PyObject *self, PyObject *definitions) {
  (void)self;
  ek_session *s = ek_session_create();
  if (!s) return PyErr_NoMemory();
  PyObject *list = ops_load(s, definitions) ? list_ops(s) : NULL;
  ek_session_destroy(s);
  return list;
}
/* op_source(definitions, name): the text of a definition */
static PyObject *op_source(PyObject *self, PyObject *args) {
  (void)self;
  PyObject *definitions, *result = NULL;
  const char *name, *text;
  if (!PyArg_ParseTuple(args, "Os", &definitions, &name)) return NULL;
  ek_session *s = ek_session_create();
  if (!s) return PyErr_NoMemory();
  if (ops_load(s, definitions)) {
    ek_code code = ek_op_source(s, name, &text);
    result = code ? fail(code, ek_message(s)) : PyUnicode_FromString(text);
  }
  ek_session_destroy(s);
  return result;
}
static PyObject *targets(PyObject *self, PyObject *none) {
  (void)self, (void)none;
  ek_session *s = ek_session_create();
  const char *const *names;
  size_t n;
  if (!s) return PyErr_NoMemory();
  ek_code code = ek_targets(s, &names, &n);
  PyObject *list = code ? fail(code, ek_message(s)) : PyList_New(0);
  for (size_t i = 0; list && i < n; i++) {
    PyObject *name = PyUnicode_FromString(names[i]);
    if (!name || PyList_Append(list, name)) Py_CLEAR(list);
    Py_XDECREF(name);
  }
  ek_session_destroy(s);
  return list;
}

static PyMethodDef functions[] = {
    {"set_errors", set_errors, METH_O, NULL},
    {"set_tracing", set_tracing, METH_VARARGS, NULL},
    {"version", version, METH_NOARGS, "Version of the C library."},
    {"llvm_path", llvm_path, METH_NOARGS, "File of the LLVM library that would be loaded; '' where there is none."},
    {"threads", threads, METH_NOARGS, "Threads that this process may use."},
    {"ops", ops, METH_O, "All operators as (name, signature, doc, file, line)."},
    {"op_source", op_source, METH_VARARGS, "The text of an operator's definition."},
    {"targets", targets, METH_NOARGS, "Names of the targets."},
    {"dlpack_export", dlpack_export, METH_VARARGS, NULL},
    {NULL, NULL, 0, NULL},
};
static bool add_type(PyObject *module, PyType_Spec *spec, const char *name, PyObject **keep) {
  PyObject *type = PyType_FromSpec(spec);
  if (!type) return false;
  if (keep) *keep = Py_NewRef(type);
  bool good = !PyModule_AddObjectRef(module, name, type);
  Py_DECREF(type);
  return good;
}
static struct PyModuleDef definition = {
    PyModuleDef_HEAD_INIT, "einkorn._core", "Einkorn's C library.", -1, functions, NULL, NULL, NULL, NULL};
PyMODINIT_FUNC PyInit__core(void) {
  PyObject *m = PyModule_Create(&definition);
  if (m && add_type(m, &module_spec, "Module", NULL) && add_type(m, &bound_spec, "Bound", &bound_type) &&
      add_type(m, &trainer_spec, "Trainer", NULL))
    return m;
  Py_XDECREF(m);
  return NULL;
}
