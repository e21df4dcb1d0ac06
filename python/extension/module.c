/* module: the type Module, a compiled model with the session and the model that it came from. einkorn.Module is its
 * subclass in Python, which adds what need not be fast. */
#include "core.h"
#include <stdlib.h>
#include <string.h>

/* ---- callbacks: called by the library in this thread, which does not hold the GIL ----------------- */
static PyObject *callback(module_object *m, const char *key) { /* borrowed; NULL: none */
  PyObject *f = PyDict_GetItemString(m->options, key);
  return f == Py_None ? NULL : f;
}
static int on_progress(void *user, const char *phase, double done) {
  PyGILState_STATE gil = PyGILState_Ensure();
  PyObject *f = callback(user, "progress"), *answer = NULL;
  int stop = PyErr_Occurred() || PyErr_CheckSignals();
  if (!stop && f) {
    answer = PyObject_CallFunction(f, "sd", phase, done);
    stop = !answer || PyObject_IsTrue(answer) != 0;
  }
  Py_XDECREF(answer);
  PyGILState_Release(gil);
  return stop;
}
static void on_log(void *user, int level, const char *text) {
  PyGILState_STATE gil = PyGILState_Ensure();
  PyObject *f = callback(user, "log");
  if (f && !PyErr_Occurred()) Py_XDECREF(PyObject_CallFunction(f, "iN", level, text_of(text)));
  PyGILState_Release(gil);
}

/* ---- inputs and outputs ------------------------------------------------------------------------ */
bool tensor_fill(tensor *t, const ek_tensor_info *i) {
  t->type = i->type, t->rank = i->rank, t->fixed = i->rank >= 0;
  if ((t->name = text_of(i->name))) PyUnicode_InternInPlace(&t->name);
  t->dims_of = i->rank < 0 ? Py_NewRef(Py_None) : PyTuple_New(i->rank);
  for (int32_t d = 0; d < i->rank && t->dims_of; d++) {
    t->dims[d] = i->dims[d];
    t->fixed &= i->dims[d] >= 0;
    PyObject *size =
        i->dims[d] >= 0 ? PyLong_FromLongLong(i->dims[d]) : text_of(i->dim_names[d] ? i->dim_names[d] : "?");
    if (!size || PyTuple_SetItem(t->dims_of, d, size)) return false;
  }
  PyObject *f = t->name && t->dims_of ? helper("dtypes") : NULL;
  PyObject *both = f ? PyObject_CallFunction(f, "s", ek_type_name(t->type)) : NULL;
  if (!both) return false;
  t->dtype = PySequence_GetItem(both, 0), t->view_type = PySequence_GetItem(both, 1);
  Py_DECREF(both);
  if (t->view_type == Py_None) Py_CLEAR(t->view_type);
  return t->dtype != NULL;
}
/* Is an input of bytes one of strings? The last axis of such a one is called NAME.bytes, also in a saved library. */
static bool bytes_of_text(const ek_tensor_info *i) {
  const char *last = i->type == EK_UINT8 && i->rank > 0 ? i->dim_names[i->rank - 1] : NULL;
  size_t n = strlen(i->name);
  return last && !strncmp(last, i->name, n) && !strcmp(last + n, ".bytes");
}
static bool listed(PyObject *dict, const char *key, PyObject *name) {
  PyObject *list = PyDict_GetItemString(dict, key);
  return list && list != Py_None && PySequence_Contains(list, name) == 1;
}
static bool tensors_fill(module_object *m) {
  ek_tensor_info i;
  int32_t nin = ek_module_inputs(m->code), nout = ek_module_outputs(m->code), nstate = ek_module_states(m->code);
  m->in = calloc((size_t)nin + 1, sizeof *m->in), m->out = calloc((size_t)nout + 1, sizeof *m->out);
  m->state = calloc((size_t)nstate + 1, sizeof *m->state);
  if (!m->in || !m->out || !m->state) return PyErr_NoMemory(), false;
  while (m->nstate < nstate) {
    ek_module_state(m->code, m->nstate, &i);
    if (!tensor_fill(&m->state[m->nstate++], &i)) return false;
  }
  for (m->nin = 0; m->nin < nin;) {
    ek_module_input(m->code, m->nin, &i);
    tensor *t = &m->in[m->nin++];
    if (!tensor_fill(t, &i)) return false;
    t->text = bytes_of_text(&i);
  }
  for (m->nout = 0; m->nout < nout;) {
    ek_module_output(m->code, m->nout, &i);
    tensor *t = &m->out[m->nout++];
    if (!tensor_fill(t, &i)) return false;
    t->text = listed(m->options, "texts", t->name);
  }
  return true;
}
static PyObject *tensors_list(const tensor *t, int32_t n) { /* (name, type, dims, text) of each */
  PyObject *list = PyTuple_New(n);
  for (int32_t i = 0; list && i < n; i++) {
    PyObject *row =
        Py_BuildValue("(OsOO)", t[i].name, ek_type_name(t[i].type), t[i].dims_of, t[i].text ? Py_True : Py_False);
    if (!row || PyTuple_SetItem(list, i, row)) Py_CLEAR(list);
  }
  return list;
}

/* ---- made and ended ---------------------------------------------------------------------------- */
/* a model to run; one that is only checked; one that is only loaded; a saved library */
typedef enum { TO_RUN, TO_CHECK, TO_LOAD, LIBRARY } making;
static ek_code load_and_compile(module_object *m, const char *path, const char *name, making what, const options *o) {
  const void *data = m->source.buf;
  const size_t bytes = (size_t)m->source.len;
  ek_code code;
  PyThreadState *held = PyEval_SaveThread();
  if (what == LIBRARY) {
    code = path ? ek_module_load(m->s, path, &m->code) : ek_module_load_memory(m->s, data, bytes, name, &m->code);
  } else {
    code = path ? ek_load(m->s, path, &m->m) : ek_load_memory(m->s, data, bytes, name, &m->m);
    if (!code && what == TO_CHECK) code = ek_check(m->m, &o->o);
    if (!code && what == TO_RUN) code = ek_compile(m->m, &o->o, &m->code);
  }
  PyEval_RestoreThread(held);
  return code;
}
static bool option_set(PyObject *dict, const char *key) {
  PyObject *v = PyDict_GetItemString(dict, key);
  return v && PyObject_IsTrue(v) == 1;
}
static bool start(module_object *m, PyObject *source) {
  PyObject *path = NULL;
  options o;
  ek_session_options so;
  ek_session_options_init(&so);
  if (!options_from(m->options, &o) || !option_number(m->options, "compile_memory", &so.compile_memory)) return false;
  const char *name = option_text(m->options, "name");
  if (PyErr_Occurred()) return false;
  if (PyUnicode_Check(source)) {
    if (!PyUnicode_FSConverter(source, &path)) return false;
  } else if (PyObject_GetBuffer(source, &m->source, PyBUF_SIMPLE)) {
    m->source.obj = NULL;
    return false;
  }
  m->s = ek_session_create_with(&so);
  m->lock = PyThread_allocate_lock();
  bool good = m->s && m->lock;
  if (!good) PyErr_NoMemory();
  if (good && callback(m, "log")) ek_set_log(m->s, on_log, m);
  if (good) ek_set_progress(m->s, on_progress, m);
  PyObject *ops = PyDict_GetItemString(m->options, "ops");
  good = good && (!ops || ops_load(m->s, ops));
  if (good) {
    const making what = option_set(m->options, "library") ? LIBRARY
                        : option_set(m->options, "check") ? TO_CHECK
                        : option_set(m->options, "load")  ? TO_LOAD
                                                          : TO_RUN;
    ek_code code = load_and_compile(m, path ? PyBytes_AsString(path) : NULL, name, what, &o);
    if (code || PyErr_Occurred()) good = fail(code, ek_message(m->s));
  }
  Py_XDECREF(path);
  return good && (!m->code || tensors_fill(m));
}
static PyObject *module_new(PyTypeObject *type, PyObject *args, PyObject *kwargs) {
  PyObject *source, *dict;
  static char *names[] = {"source", "options", NULL};
  if (!PyArg_ParseTupleAndKeywords(args, kwargs, "OO!", names, &source, &PyDict_Type, &dict)) return NULL;
  allocfunc alloc = (allocfunc)PyType_GetSlot(type, Py_tp_alloc);
  module_object *m = (module_object *)alloc(type, 0);
  if (!m) return NULL;
  m->options = Py_NewRef(dict);
  if (start(m, source)) return (PyObject *)m;
  Py_DECREF(m);
  return NULL;
}
void tensor_clear(tensor *t) {
  Py_CLEAR(t->name);
  Py_CLEAR(t->dims_of);
  Py_CLEAR(t->dtype);
  Py_CLEAR(t->view_type);
}
void tensors_free(tensor *t, int32_t n) {
  for (int32_t i = 0; i < n; i++) tensor_clear(&t[i]);
  free(t);
}
static void end(module_object *m) { /* gives back what is large */
  contexts_free(m);
  ek_session_destroy(m->s);
  m->s = NULL, m->m = NULL, m->code = NULL;
  if (m->source.obj) PyBuffer_Release(&m->source);
  m->source.obj = NULL;
}
bool module_enter(module_object *m) {
  if (m->closed) return PyErr_SetString(PyExc_ValueError, "the module is closed"), false;
  m->active++;
  return true;
}
void module_leave(module_object *m) {
  if (!--m->active && m->closed) end(m);
}
static PyObject *close_module(PyObject *self, PyObject *none) {
  module_object *m = (module_object *)self;
  (void)none;
  if (!m->closed) {
    m->closed = true;
    if (!m->active) end(m);
  }
  Py_RETURN_NONE;
}
static void module_dealloc(PyObject *self) {
  module_object *m = (module_object *)self;
  PyTypeObject *type = Py_TYPE(self);
  PyObject_GC_UnTrack(self);
  end(m);
  if (m->lock) PyThread_free_lock(m->lock);
  tensors_free(m->in, m->nin), tensors_free(m->out, m->nout), tensors_free(m->state, m->nstate);
  Py_XDECREF(m->options);
  ((freefunc)PyType_GetSlot(type, Py_tp_free))(self);
  Py_DECREF(type);
}
static int module_traverse(PyObject *self, visitproc visit, void *arg) {
  Py_VISIT(Py_TYPE(self));
  Py_VISIT(((module_object *)self)->options);
  return 0;
}

/* ---- asked about -------------------------------------------------------------------------------- */
static PyObject *get_inputs(PyObject *self, void *none) {
  (void)none;
  return tensors_list(((module_object *)self)->in, ((module_object *)self)->nin);
}
static PyObject *get_outputs(PyObject *self, void *none) {
  (void)none;
  return tensors_list(((module_object *)self)->out, ((module_object *)self)->nout);
}
static PyObject *get_states(PyObject *self, void *none) {
  (void)none;
  return tensors_list(((module_object *)self)->state, ((module_object *)self)->nstate);
}
PyObject *report_dict(const ek_report *r, const ek_memory_use *use) {
  const ek_memory_use none = {0};
  if (!use) use = &none;
  return Py_BuildValue(
      "{szszsKsKsKsIsIsIsKsdsdsdsdsdsOsKsKsIsd}", "memory", r->memory, "least_memory", r->least_memory, "weight_bytes",
      (unsigned long long)r->weight_bytes, "code_bytes", (unsigned long long)r->code_bytes, "file_bytes",
      (unsigned long long)r->file_bytes, "kernels", r->kernels, "functions", r->functions, "compiled", r->compiled,
      "rewrites", (unsigned long long)r->rewrites, "total_ms", r->total_ms, "load_ms", r->load_ms, "passes_ms",
      r->passes_ms, "schedule_ms", r->schedule_ms, "code_ms", r->code_ms, "cached", r->cached ? Py_True : Py_False,
      "state_bytes", (unsigned long long)use->state_bytes, "constant_bytes", (unsigned long long)use->constant_bytes,
      "repeated", (unsigned int)use->repeated, "repeated_cost", use->repeated_cost);
}
static PyObject *get_report(PyObject *self, void *none) {
  module_object *m = (module_object *)self;
  (void)none;
  ek_report r;
  if (!module_enter(m)) return NULL;
  ek_memory_use use = {.size = sizeof use};
  ek_module_report(m->code, &r);
  ek_module_memory(m->code, &use);
  PyObject *dict = report_dict(&r, &use);
  module_leave(m);
  return dict;
}
static PyObject *get_options(PyObject *self, void *none) {
  (void)none;
  return Py_NewRef(((module_object *)self)->options);
}
bool session_take(module_object *m, const char *what) {
  if (!module_enter(m)) return false;
  if (!m->m) {
    PyErr_Format(PyExc_ValueError, "%s needs the model, and this module was loaded from a library", what);
    module_leave(m);
    return false;
  }
  if (PyThread_acquire_lock(m->lock, NOWAIT_LOCK)) return true;
  PyThreadState *held = PyEval_SaveThread();
  PyThread_acquire_lock(m->lock, WAIT_LOCK);
  PyEval_RestoreThread(held);
  return true;
}
void session_give(module_object *m) {
  PyThread_release_lock(m->lock);
  module_leave(m);
}
static PyObject *save(PyObject *self, PyObject *args) { /* save(path, options) -> report */
  module_object *m = (module_object *)self;
  PyObject *path, *dict, *result = NULL;
  options o;
  ek_report r = {0};
  if (!PyArg_ParseTuple(args, "O&O!", PyUnicode_FSConverter, &path, &PyDict_Type, &dict)) return NULL;
  if (options_from(dict, &o) && session_take(m, "save")) {
    PyThreadState *held = PyEval_SaveThread();
    ek_code code = ek_save(m->m, &o.o, PyBytes_AsString(path), &r);
    PyEval_RestoreThread(held);
    result = code || PyErr_Occurred() ? fail(code, ek_message(m->s)) : report_dict(&r, NULL);
    session_give(m);
  }
  Py_DECREF(path);
  return result;
}
static PyObject *show(PyObject *self, PyObject *args) { /* show(options, stage, after, node, weights, grad) -> text */
  module_object *m = (module_object *)self;
  PyObject *dict, *result = NULL;
  ek_show_options w;
  ek_show_options_init(&w);
  options o;
  const char *text;
  if (!PyArg_ParseTuple(args, "O!szzpz", &PyDict_Type, &dict, &w.stage, &w.after, &w.node, &w.weights_inline,
                        &w.grad) ||
      !options_from(dict, &o) || !session_take(m, "show"))
    return NULL;
  PyThreadState *held = PyEval_SaveThread();
  ek_code code = ek_show(m->m, &o.o, &w, &text);
  PyEval_RestoreThread(held);
  result = code || PyErr_Occurred() ? fail(code, ek_message(m->s)) : text_of(text);
  session_give(m);
  return result;
}
static PyObject *check(PyObject *self, PyObject *args) { /* check(options) */
  module_object *m = (module_object *)self;
  PyObject *dict;
  options o;
  if (!PyArg_ParseTuple(args, "O!", &PyDict_Type, &dict) || !options_from(dict, &o) || !session_take(m, "check"))
    return NULL;
  PyThreadState *held = PyEval_SaveThread();
  ek_code code = ek_check(m->m, &o.o);
  PyEval_RestoreThread(held);
  PyObject *result = code || PyErr_Occurred() ? fail(code, ek_message(m->s)) : Py_NewRef(Py_None);
  session_give(m);
  return result;
}
static PyMethodDef methods[] = {
    {"run", (PyCFunction)(void *)module_run, METH_VARARGS | METH_KEYWORDS,
     "run(inputs, out=None)\n\nComputes the outputs: a dict of arrays by name. inputs: a dict by name. out: a dict of\n"
     "arrays that outputs are written to."},
    {"bind", (PyCFunction)(void *)module_bind, METH_VARARGS | METH_KEYWORDS,
     "bind(inputs, out=None)\n\nA callable without arguments that runs the module on these arrays each time, for the\n"
     "least cost of a call. inputs, out: as for run."},
    {"reset", module_reset, METH_VARARGS,
     "reset(name=None)\n\nThe state of that name begins again, or all states do: with zeros, or with the contents of "
     "the\ninitialiser of its name."},
    {"snapshot", module_snapshot, METH_NOARGS, "snapshot()\n\nWhat the states hold now: a dict of new arrays by name."},
    {"restore", module_restore, METH_O,
     "restore(states)\n\nStates become copies of these arrays, a dict by name; others stay as they are."},
    {"_close", close_module, METH_NOARGS, NULL},
    {"_profile", module_profile, METH_O, NULL},
    {"_save", save, METH_VARARGS, NULL},
    {"_show", show, METH_VARARGS, NULL},
    {"_check", check, METH_VARARGS, NULL},
    {"_diff", module_diff, METH_VARARGS, NULL},
    {"_quantize", module_quantize, METH_VARARGS, NULL},
    {NULL, NULL, 0, NULL},
};
static PyGetSetDef getters[] = {
    {"_inputs", get_inputs, NULL, NULL, NULL},   {"_outputs", get_outputs, NULL, NULL, NULL},
    {"_states", get_states, NULL, NULL, NULL},   {"_report", get_report, NULL, NULL, NULL},
    {"_options", get_options, NULL, NULL, NULL}, {NULL, NULL, NULL, NULL, NULL},
};
static PyType_Slot slots[] = {
    {Py_tp_new, module_new},
    {Py_tp_dealloc, module_dealloc},
    {Py_tp_traverse, module_traverse},
    {Py_tp_call, module_call},
    {Py_tp_methods, methods},
    {Py_tp_getset, getters},
    {0, NULL},
};
PyType_Spec module_spec = {"einkorn._core.Module", sizeof(module_object), 0,
                           Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE | Py_TPFLAGS_HAVE_GC, slots};
