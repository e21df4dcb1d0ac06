/* What is a file that no front end reads? Recognised by its first bytes, or, as a folder, by what lies in it, with
 * what to do then. One row per format; nothing here reads more than the beginning. */
#include "driver/pipeline.h"
#include <string.h>
#include <strings.h>
#include <sys/stat.h>

typedef struct format {
  size_t at;        /* offset of the mark in the file */
  const char *mark; /* bytes by which it is recognised */
  size_t n;         /* bytes of the mark */
  const char *what; /* what the file is: "PATH is WHAT: DO" */
  const char *do_;  /* what to do with it */
} format;
#define MARK(s) s, sizeof s - 1
#define CONVERT_TF "convert it to ONNX with tf2onnx (pip install tf2onnx; python3 -m tf2onnx.convert "
#define EXPORT_TORCH "export the model from PyTorch with torch.onnx.export(model, inputs, \"model.onnx\")"
static const format formats[] = {
    {0, MARK("version https://git-lfs"), "a pointer of Git LFS, not the model itself",
     "fetch the model with `git lfs pull` where it was cloned"},
    {4, MARK("TFL3"), "a TensorFlow Lite model", CONVERT_TF "--tflite FILE --output model.onnx)"},
    {0, MARK("\x89HDF\r\n\x1a\n"), "an HDF5 file, as Keras writes models",
     "save it from Keras as a SavedModel (model.export(\"folder\")), and " CONVERT_TF
     "--saved-model folder --output model.onnx)"},
    {4, MARK("ORTM"), "a model in onnxruntime's own format (.ort)", "use the .onnx file that it was made of"},
    {0, MARK("GGUF"), "a GGUF file: weights without a graph", "export the model itself to ONNX"},
    {0, MARK("ML\xefR"), "MLIR bytecode", "export the model to ONNX"},
    {0, MARK("\x93NUMPY"), "an array of numpy (.npy)", "it may be data of an input: --input NAME=FILE"},
    {0, MARK("\x1f\x8b"), "compressed by gzip", "decompress it first: gzip -d FILE"},
    {0, MARK("BZh"), "compressed by bzip2", "decompress it first: bzip2 -d FILE"},
    {0,
     MARK("\xfd"
          "7zXZ"),
     "compressed by xz", "decompress it first: xz -d FILE"},
    {0, MARK("\x28\xb5\x2f\xfd"), "compressed by zstd", "decompress it first: zstd -d FILE"},
    {257, MARK("ustar"), "an archive of tar", "unpack it first: tar xf FILE"},
    {0, MARK("7767517"), "a graph of ncnn (.param)", "use the ONNX file that it was converted from"},
    {0, MARK("ftrt"), "an engine of TensorRT", "use the ONNX file that it was built from"},
    {0, MARK("ptrt"), "an engine of TensorRT", "use the ONNX file that it was built from"},
};
static bool has(bytes b, const char *text) { /* Does the text stand near the beginning of the file? */
  size_t most = b.n < 4096 ? b.n : 4096;
  return memmem(b.p, most, text, strlen(text)) != NULL;
}
static bool begins(bytes b, const char *text) { /* whatever the case of letters, behind blanks */
  size_t at = 0;
  if (b.n >= 3 && !memcmp(b.p, "\xef\xbb\xbf", 3)) at = 3;
  while (at < b.n && strchr(" \t\r\n", b.p[at]) && b.p[at]) at++;
  return b.n - at >= strlen(text) && !strncasecmp((const char *)b.p + at, text, strlen(text));
}
static const char *of_zip(bytes b, const char **what) {
  if (has(b, "data.pkl") || has(b, "constants.pkl") || has(b, "archive/"))
    return *what = "a zip of PyTorch (.pt)", EXPORT_TORCH;
  if (has(b, "model.weights.h5") || has(b, "config.json"))
    return *what = "a model of Keras (.keras)", "export it from Keras: model.export(\"model.onnx\", format=\"onnx\")";
  if (has(b, ".npy")) return *what = "an archive of numpy arrays (.npz)", "it may be data of the inputs: --inputs FILE";
  return *what = "a zip archive", "unpack it first: unzip FILE";
}
static const char *of_text(bytes b, const char **what) {
  if (begins(b, "<!doctype html") || begins(b, "<html") || begins(b, "<head"))
    return *what = "a web page, not a model",
           "the download gave a page, such as a login or an error: look at it, and fetch the file itself";
  if (begins(b, "<?xml") || begins(b, "<net"))
    return *what = has(b, "<net") ? "a model of OpenVINO (.xml)" : "XML",
           "use the ONNX file that it was converted from";
  if (begins(b, "{") || begins(b, "["))
    return *what = "JSON", "ONNX models are binary files, or graph text as `einkorn show MODEL` prints it; what calls "
                           "itself ONNX in JSON "
                           "goes back by onnx.save(onnx.load(FILE), \"model.onnx\")";
  if (begins(b, "module ") || begins(b, "#loc") || begins(b, "builtin.module"))
    return *what = "MLIR", "export the model to ONNX";
  return NULL;
}
/* Eight bytes of length, and JSON: safetensors */
static bool is_safetensors(bytes b) {
  uint64_t n = 0;
  if (b.n < 16) return false;
  for (int i = 8; i-- > 0;) n = n << 8 | b.p[i];
  return n > 1 && n <= b.n - 8 && b.p[8] == '{';
}
/* What it is, NULL: nothing known here; *do_: what to do, in which FILE is the file. */
static const char *foreign(bytes b, const char **do_) {
  const char *what = NULL, *advice = NULL;
  for (size_t i = 0; i < sizeof formats / sizeof *formats && !what; i++) {
    const format *f = &formats[i];
    if (b.n >= f->at + f->n && !memcmp(b.p + f->at, f->mark, f->n)) what = f->what, advice = f->do_;
  }
  if (!what && b.n >= 4 && !memcmp(b.p, "PK\3\4", 4)) advice = of_zip(b, &what);
  if (!what && b.n > 2 && b.p[0] == 0x80 && b.p[1] >= 2 && b.p[1] <= 5)
    what = "a Python pickle, as PyTorch and scikit-learn write",
    advice = EXPORT_TORCH ", or one of scikit-learn with skl2onnx";
  if (!what && is_safetensors(b)) what = "a file of safetensors: weights without a graph", advice = EXPORT_TORCH;
  if (!what) advice = of_text(b, &what);
  *do_ = advice;
  return what;
}
bool foreign_file(bytes b) {
  const char *advice;
  return foreign(b, &advice) != NULL;
}
graph *refuse_foreign(ctx *c, const source *s, bytes b, bool standard) {
  const char *name = s->name, *advice, *what = foreign(b, &advice);
  (void)standard;
  sbuf text = sbuf_new(ctx_arena(c));
  for (const char *p = advice, *at; *p; p = at) {
    at = strstr(p, "FILE");
    if (!at) at = p + strlen(p);
    sb_putn(&text, p, (size_t)(at - p));
    if (*at) sb_put(&text, name), at += 4;
  }
  ctx_fail(c, E_MODEL, "%s is %s: %s", name, what, text.s);
}
static bool holds(ctx *c, const char *folder, const char *file) {
  struct stat st;
  return !stat(arena_fmt(ctx_arena(c), "%s/%s", folder, file), &st);
}
void foreign_folder(ctx *c, const char *path) {
  struct stat st;
  if (stat(path, &st) || !S_ISDIR(st.st_mode)) return;
  if (holds(c, path, "saved_model.pb") || holds(c, path, "saved_model.pbtxt"))
    ctx_fail(c, E_MODEL, "%s is a SavedModel of TensorFlow: " CONVERT_TF "--saved-model %s --output model.onnx)", path,
             path);
  if (holds(c, path, "Manifest.json"))
    ctx_fail(c, E_MODEL, "%s is a package of Core ML: export the model to ONNX from where it was made", path);
  const char *inside = holds(c, path, "model.onnx") ? "model.onnx" : NULL;
  if (holds(c, path, "onnx/model.onnx")) inside = "onnx/model.onnx";
  if (inside) ctx_fail(c, E_IO, "%s is a directory: did you mean %s/%s?", path, path, inside);
  ctx_fail(c, E_IO, "%s is a directory: the .onnx file in it is to be named", path);
}
