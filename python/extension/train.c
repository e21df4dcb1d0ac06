/* train: the type Trainer, a step of training of a model that a Module has only loaded (its option "load").
 * einkorn.train.Trainer is built on it. Arrays of a batch are used where they lie, as those of a call are. */
#include "core.h"
#include <stdlib.h>
#include <string.h>

enum { MOST_TEXTS = 256 };
typedef struct trainer_object {
  PyObject_HEAD module_object *m; /* has the session and the model */
  bool entered;                   /* the module stays open */
  ek_trainer *t;                  /* NULL: closed */
  PyObject *options;              /* dict; it keeps the texts of `compile` */
  options compile;
  tensor *batch; /* what a step is given */
  int32_t n;     /* how many */
  value *held;   /* memory of a batch while it is used */
  ek_array *arrays;
} trainer_object;

/* The trainer for this thread alone, until trainer_give. false: exception */
static bool trainer_take(trainer_object *x) {
  if (!session_take(x->m, "training")) return false;
  if (x->t) return true;
  PyErr_SetString(PyExc_ValueError, "the trainer is closed");
  session_give(x->m);
  return false;
}
static void trainer_give(trainer_object *x) { session_give(x->m); }
static void *trainer_failed(const trainer_object *x, ek_code code) { return fail(code, ek_message(x->m->s)); }

/* ---- made and ended ---------------------------------------------------------------------------- */
/* (name, name of the type, sizes): an array of the batch */
static bool read_array(PyObject *row, tensor *t, ek_array *to) {
  const char *name, *type;
  PyObject *dims;
  if (!PyArg_ParseTuple(row, "ssO!", &name, &type, &PyTuple_Type, &dims)) return false;
  const Py_ssize_t rank = PyTuple_Size(dims);
  *to = (ek_array){.name = name, .type = type_named(type), .rank = (int32_t)rank};
  if (!to->type || rank > EK_MAX_RANK)
    return PyErr_Format(PyExc_ValueError, "batch: array '%s' has the type %s and %zd axes", name, type, rank), false;
  for (Py_ssize_t i = 0; i < rank; i++) to->dims[i] = PyLong_AsLongLong(PyTuple_GetItem(dims, i));
  if (PyErr_Occurred()) return false;
  ek_tensor_info info = {.name = name, .type = to->type, .rank = to->rank};
  memcpy(info.dims, to->dims, sizeof info.dims);
  return tensor_fill(t, &info);
}
static bool read_batch(trainer_object *x, PyObject *list) {
  const Py_ssize_t n = PyList_Size(list);
  x->batch = calloc((size_t)n + 1, sizeof *x->batch), x->held = calloc((size_t)n + 1, sizeof *x->held);
  x->arrays = calloc((size_t)n + 1, sizeof *x->arrays);
  if (!x->batch || !x->held || !x->arrays) return PyErr_NoMemory(), false;
  while (x->n < n) {
    const int32_t i = x->n++;
    if (!read_array(PyList_GetItem(list, i), &x->batch[i], &x->arrays[i])) return false;
  }
  return true;
}
/* The numbers of a sequence, for PyMem_Free; NULL: an error is set. */
static double *numbers_of(PyObject *list, size_t *n) {
  PyObject *all = PySequence_Tuple(list);
  if (!all) return NULL;
  *n = (size_t)PyTuple_Size(all);
  double *out = PyMem_Calloc(*n + 1, sizeof *out);
  if (!out) PyErr_NoMemory();
  for (size_t k = 0; out && k < *n; k++) out[k] = PyFloat_AsDouble(PyTuple_GetItem(all, (Py_ssize_t)k));
  Py_DECREF(all);
  if (!PyErr_Occurred()) return out;
  PyMem_Free(out);
  return NULL;
}
/* (name, means, deviations): an input that is standardized. false: exception */
static bool read_standard(PyObject *row, ek_standardization *to) {
  PyObject *mean, *deviation;
  size_t n = 0;
  if (!PyArg_ParseTuple(row, "sOO", &to->input, &mean, &deviation)) return false;
  to->mean = numbers_of(mean, &to->count);
  to->deviation = to->mean ? numbers_of(deviation, &n) : NULL;
  if (!to->deviation) return false;
  if (n == to->count) return true;
  PyErr_Format(PyExc_ValueError, "standardize: '%s' has %zu means and %zu deviations", to->input, to->count, n);
  return false;
}
static ek_standardization *read_standards(PyObject *list, size_t *n) {
  *n = (size_t)PyList_Size(list);
  ek_standardization *all = PyMem_Calloc(*n + 1, sizeof *all);
  if (!all) PyErr_NoMemory();
  for (size_t i = 0; all && i < *n; i++)
    if (!read_standard(PyList_GetItem(list, (Py_ssize_t)i), &all[i])) break;
  return all;
}
static void free_standards(ek_standardization *all, size_t n) {
  for (size_t i = 0; all && i < n; i++) PyMem_Free((double *)all[i].mean), PyMem_Free((double *)all[i].deviation);
  PyMem_Free(all);
}
static bool create(trainer_object *x, ek_train_options *o) {
  const char *metrics[MOST_TEXTS + 1], *freeze[MOST_TEXTS + 1], *groups[MOST_TEXTS + 1], *metadata[MOST_TEXTS + 1];
  if (!options_from(x->options, &x->compile)) return false;
  o->metrics = option_texts(x->options, "metrics", metrics, MOST_TEXTS);
  o->freeze = option_texts(x->options, "freeze", freeze, MOST_TEXTS);
  o->groups = option_texts(x->options, "groups", groups, MOST_TEXTS);
  o->metadata = option_texts(x->options, "metadata", metadata, MOST_TEXTS);
  o->options = &x->compile.o, o->batch = x->arrays, o->batch_count = (size_t)x->n;
  if (PyErr_Occurred() || !session_take(x->m, "training")) return false;
  PyThreadState *held = PyEval_SaveThread();
  const ek_code code = ek_trainer_create(x->m->m, o, &x->t);
  PyEval_RestoreThread(held);
  const bool good = !code && !PyErr_Occurred();
  if (!good) trainer_failed(x, code);
  session_give(x->m);
  return good;
}
/* Trainer(module, options, batch, loss, optimizer, output, clip_norm, clip_value, accumulate, seed, ema, init, memory,
 * loss_scale, loss_scale_interval, standardize); options: as of a module, and the lists metrics, freeze, groups,
 * metadata */
static PyObject *trainer_new(PyTypeObject *type, PyObject *args, PyObject *none) {
  PyObject *module, *dict, *batch, *standards;
  unsigned long long seed, memory;
  ek_train_options o;
  (void)none;
  ek_train_options_init(&o);
  if (!PyArg_ParseTuple(args, "OO!O!sszddiKdzKdiO!", &module, &PyDict_Type, &dict, &PyList_Type, &batch, &o.loss,
                        &o.optimizer, &o.output, &o.clip_norm, &o.clip_value, &o.accumulate, &seed, &o.ema, &o.init,
                        &memory, &o.loss_scale, &o.loss_scale_interval, &PyList_Type, &standards))
    return NULL;
  o.seed = seed, o.memory = memory;
  const allocfunc alloc = (allocfunc)PyType_GetSlot(type, Py_tp_alloc);
  trainer_object *x = (trainer_object *)alloc(type, 0);
  if (!x) return NULL;
  x->m = (module_object *)Py_NewRef(module), x->options = Py_NewRef(dict);
  x->entered = module_enter(x->m);
  ek_standardization *all = read_standards(standards, &o.standardize_count);
  o.standardize = all;
  const bool good = !PyErr_Occurred() && x->entered && read_batch(x, batch) && create(x, &o);
  free_standards(all, o.standardize_count);
  if (good) return (PyObject *)x;
  Py_DECREF(x);
  return NULL;
}
static PyObject *trainer_close(PyObject *self, PyObject *none) {
  trainer_object *x = (trainer_object *)self;
  (void)none;
  if (!x->t) Py_RETURN_NONE;
  if (!session_take(x->m, "training")) return NULL;
  ek_trainer_close(x->t);
  x->t = NULL;
  session_give(x->m);
  Py_RETURN_NONE;
}
static void trainer_dealloc(PyObject *self) {
  trainer_object *x = (trainer_object *)self;
  PyTypeObject *type = Py_TYPE(self);
  ek_trainer_close(x->t);
  if (x->entered) module_leave(x->m);
  tensors_free(x->batch, x->n);
  free(x->held), free(x->arrays);
  Py_XDECREF((PyObject *)x->m);
  Py_XDECREF(x->options);
  ((freefunc)PyType_GetSlot(type, Py_tp_free))(self);
  Py_DECREF(type);
}

/* ---- steps ------------------------------------------------------------------------------------- */
/* The arrays of the dict are x->arrays until let_go. */
static bool take_batch(trainer_object *x, PyObject *dict) {
  if (!PyDict_Check(dict)) return PyErr_SetString(PyExc_TypeError, "a dict of arrays by name is expected"), false;
  return inputs_from(x->batch, x->n, dict, x->held, x->arrays);
}
static void let_go(trainer_object *x) {
  for (int32_t i = 0; i < x->n; i++) value_release(&x->held[i]);
}
static PyObject *trainer_run(trainer_object *x, PyObject *dict, const double *lr) {
  double loss = 0;
  PyObject *answer = NULL;
  if (!trainer_take(x)) return NULL;
  if (take_batch(x, dict)) {
    PyThreadState *held = PyEval_SaveThread();
    const ek_code code = lr ? ek_trainer_step(x->t, x->arrays, (size_t)x->n, *lr, &loss)
                            : ek_trainer_evaluate(x->t, x->arrays, (size_t)x->n, &loss);
    PyEval_RestoreThread(held);
    answer = code || PyErr_Occurred() ? trainer_failed(x, code) : PyFloat_FromDouble(loss);
  }
  let_go(x);
  trainer_give(x);
  return answer;
}
static PyObject *trainer_step(PyObject *self, PyObject *args) { /* step(arrays, lr) -> loss */
  PyObject *dict;
  double lr;
  return PyArg_ParseTuple(args, "Od", &dict, &lr) ? trainer_run((trainer_object *)self, dict, &lr) : NULL;
}
static PyObject *trainer_evaluate(PyObject *self, PyObject *dict) { /* evaluate(arrays) -> loss */
  return trainer_run((trainer_object *)self, dict, NULL);
}
static PyObject *trainer_metric(PyObject *self, PyObject *number) { /* metric(i) -> tuple of sums */
  trainer_object *x = (trainer_object *)self;
  const size_t i = PyLong_AsSize_t(number);
  const double *sums;
  size_t n;
  PyObject *all = NULL;
  if (PyErr_Occurred() || !trainer_take(x)) return NULL;
  const ek_code code = ek_trainer_metric(x->t, i, &sums, &n);
  if (code)
    trainer_failed(x, code);
  else
    all = PyTuple_New((Py_ssize_t)n);
  for (size_t k = 0; all && k < n; k++) PyTuple_SetItem(all, (Py_ssize_t)k, PyFloat_FromDouble(sums[k]));
  trainer_give(x);
  return all;
}

static PyObject *trainer_metric_value(PyObject *self, PyObject *args) { /* metric_value(i, sums) -> number */
  trainer_object *x = (trainer_object *)self;
  PyObject *list;
  Py_ssize_t i;
  double value = 0;
  size_t n;
  if (!PyArg_ParseTuple(args, "nO", &i, &list)) return NULL;
  double *sums = numbers_of(list, &n);
  if (sums && trainer_take(x)) {
    const ek_code code = ek_trainer_metric_value(x->t, (size_t)i, sums, n, &value);
    if (code) trainer_failed(x, code);
    trainer_give(x);
  }
  PyMem_Free(sums);
  return PyErr_Occurred() ? NULL : PyFloat_FromDouble(value);
}
/* rate(schedule, base, step, total, losses) -> learning rate */
static PyObject *trainer_rate(PyObject *self, PyObject *args) {
  trainer_object *x = (trainer_object *)self;
  const char *schedule;
  PyObject *list;
  long long step, total;
  ek_schedule_point at = {0};
  double rate = 0;
  if (!PyArg_ParseTuple(args, "sdLLO", &schedule, &at.base, &step, &total, &list)) return NULL;
  double *losses = numbers_of(list, &at.loss_count);
  at.step = step, at.total = total, at.losses = losses;
  if (losses && trainer_take(x)) {
    const ek_code code = ek_schedule_rate(x->m->s, schedule, &at, &rate);
    if (code) trainer_failed(x, code);
    trainer_give(x);
  }
  PyMem_Free(losses);
  return PyErr_Occurred() ? NULL : PyFloat_FromDouble(rate);
}

/* ---- what changes ------------------------------------------------------------------------------ */
static bool trained(const ek_array *a, tensor *t) {
  ek_tensor_info info = {.name = a->name, .type = a->type, .rank = a->rank};
  memcpy(info.dims, a->dims, sizeof info.dims);
  return tensor_fill(t, &info);
}
static PyObject *trainer_tensors(PyObject *self, PyObject *none) { /* tensors() -> (name, kind) of each */
  trainer_object *x = (trainer_object *)self;
  (void)none;
  if (!trainer_take(x)) return NULL;
  const size_t n = ek_trainer_tensors(x->t);
  PyObject *all = PyTuple_New((Py_ssize_t)n);
  for (size_t i = 0; all && i < n; i++) {
    ek_array a;
    const ek_code code = ek_trainer_tensor(x->t, i, &a);
    PyObject *row =
        code ? trainer_failed(x, code) : Py_BuildValue("(Ni)", text_of(a.name), (int)ek_trainer_tensor_kind(x->t, i));
    if (!row || PyTuple_SetItem(all, (Py_ssize_t)i, row)) Py_CLEAR(all);
  }
  trainer_give(x);
  return all;
}
/* get(i) -> a new array; set(i, array) */
static PyObject *get_or_set(trainer_object *x, size_t i, PyObject *with) {
  ek_array a;
  tensor t = {0};
  value v;
  PyObject *answer = NULL;
  if (!trainer_take(x)) return NULL;
  ek_code code = ek_trainer_tensor(x->t, i, &a);
  if (code) {
    trainer_failed(x, code);
  } else if (trained(&a, &t) && !with) {
    answer = array_copy(&t, &a);
  } else if (with && t.dtype && value_input(&t, with, &v)) {
    a.rank = v.rank, a.data = v.data, a.bytes = ek_type_bytes(t.type);
    for (int32_t k = 0; k < v.rank; k++) a.dims[k] = v.dims[k], a.bytes *= (size_t)v.dims[k];
    code = ek_trainer_set_tensor(x->t, &a);
    value_release(&v);
    answer = code ? trainer_failed(x, code) : Py_NewRef(Py_None);
  }
  tensor_clear(&t);
  trainer_give(x);
  return answer;
}
static PyObject *trainer_get(PyObject *self, PyObject *number) {
  const size_t i = PyLong_AsSize_t(number);
  return PyErr_Occurred() ? NULL : get_or_set((trainer_object *)self, i, NULL);
}
static PyObject *trainer_set(PyObject *self, PyObject *args) {
  Py_ssize_t i;
  PyObject *with;
  return PyArg_ParseTuple(args, "nO", &i, &with) ? get_or_set((trainer_object *)self, (size_t)i, with) : NULL;
}
static PyObject *trainer_steps(PyObject *self, PyObject *args) { /* steps() -> updates so far; steps(n): as if */
  trainer_object *x = (trainer_object *)self;
  long long n = -1;
  if (!PyArg_ParseTuple(args, "|L", &n) || !trainer_take(x)) return NULL;
  const ek_code code = PyTuple_Size(args) ? ek_trainer_set_steps(x->t, n) : EK_OK;
  PyObject *answer = code ? trainer_failed(x, code) : PyLong_FromLongLong(ek_trainer_steps(x->t));
  trainer_give(x);
  return answer;
}

static PyObject *trainer_samples(PyObject *self, PyObject *args) { /* samples(epoch, i64 as bytes, or None) */
  trainer_object *x = (trainer_object *)self;
  Py_buffer b = {0};
  long long epoch;
  if (!PyArg_ParseTuple(args, "Lz*", &epoch, &b)) return NULL;
  PyObject *answer = NULL;
  if (trainer_take(x)) {
    const ek_code code = ek_trainer_set_samples(x->t, epoch, b.buf, (size_t)b.len / sizeof(int64_t));
    answer = code ? trainer_failed(x, code) : Py_NewRef(Py_None);
    trainer_give(x);
  }
  PyBuffer_Release(&b);
  return answer;
}

/* ---- asked about ------------------------------------------------------------------------------- */
static PyObject *trainer_save(PyObject *self, PyObject *args) { /* save(path) */
  trainer_object *x = (trainer_object *)self;
  PyObject *path, *answer = NULL;
  if (!PyArg_ParseTuple(args, "O&", PyUnicode_FSConverter, &path)) return NULL;
  if (trainer_take(x)) {
    PyThreadState *held = PyEval_SaveThread();
    const ek_code code = ek_trainer_save(x->t, PyBytes_AsString(path));
    PyEval_RestoreThread(held);
    answer = code || PyErr_Occurred() ? trainer_failed(x, code) : Py_NewRef(Py_None);
    trainer_give(x);
  }
  Py_DECREF(path);
  return answer;
}
static PyObject *trainer_output(PyObject *self,
                                PyObject *none) { /* output() -> name of the tensor of the loss, or None */
  trainer_object *x = (trainer_object *)self;
  (void)none;
  if (!trainer_take(x)) return NULL;
  const char *name = ek_trainer_output(x->t);
  PyObject *answer = name ? text_of(name) : Py_NewRef(Py_None);
  trainer_give(x);
  return answer;
}
static PyObject *trainer_report(PyObject *self, PyObject *none) {
  trainer_object *x = (trainer_object *)self;
  ek_report r;
  (void)none;
  if (!trainer_take(x)) return NULL;
  ek_memory_use use = {.size = sizeof use};
  ek_trainer_report(x->t, &r);
  ek_trainer_memory(x->t, &use);
  PyObject *dict = report_dict(&r, &use);
  trainer_give(x);
  return dict;
}
static PyMethodDef methods[] = {
    {"step", trainer_step, METH_VARARGS, NULL},
    {"evaluate", trainer_evaluate, METH_O, NULL},
    {"metric", trainer_metric, METH_O, NULL},
    {"metric_value", trainer_metric_value, METH_VARARGS, NULL},
    {"tensors", trainer_tensors, METH_NOARGS, NULL},
    {"get", trainer_get, METH_O, NULL},
    {"samples", trainer_samples, METH_VARARGS, NULL},
    {"set", trainer_set, METH_VARARGS, NULL},
    {"steps", trainer_steps, METH_VARARGS, NULL},
    {"save", trainer_save, METH_VARARGS, NULL},
    {"report", trainer_report, METH_NOARGS, NULL},
    {"rate", trainer_rate, METH_VARARGS, NULL},
    {"output", trainer_output, METH_NOARGS, NULL},
    {"close", trainer_close, METH_NOARGS, NULL},
    {NULL, NULL, 0, NULL},
};
static PyType_Slot slots[] = {
    {Py_tp_new, trainer_new}, {Py_tp_dealloc, trainer_dealloc}, {Py_tp_methods, methods}, {0, NULL}};
PyType_Spec trainer_spec = {"einkorn._core.Trainer", sizeof(trainer_object), 0, Py_TPFLAGS_DEFAULT, slots};
