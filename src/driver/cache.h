/* Compiled code kept on disk: a cached start neither starts LLVM nor runs a pass.
 *
 *   key     what the code depends on: contents of the model's files and of the user's operators, options, target,
 *           processor, this build of the compiler and LLVM     cache_key.c
 *   folder  where entries lie, who may have written there, how many bytes are kept
 *           cache_folder.c
 *   entry   one file: description of the model, image of its code (codegen/image), packed weights
 *           cache_entry.c
 *
 * Nothing here makes a compilation fail: whatever goes wrong is told as a D_INFO diagnostic, and the model is
 * compiled as if there were no cache. An entry is written under a temporary name and renamed, and never
 * changed afterwards, so that processes need not wait for each other; a removed entry lives on in the processes
 * that have it mapped.
 */
#ifndef EK_DRIVER_CACHE_H
#define EK_DRIVER_CACHE_H
#include "driver/driver.h"

/* ---- cache_folder.c. Functions that return bool leave the reason in *why (in the context's arena) ---- */
typedef struct folder {
  int fd;           /* -1: none */
  const char *path; /* path of the folder, for messages */
  uint64_t limit;   /* bytes of all entries */
} folder;
/* path "": $EINKORN_CACHE_DIR or its default. limit 0: $EINKORN_CACHE_SIZE or its default */
bool folder_open(ctx *c, const char *path, uint64_t limit, folder *f, const char **why);
/* A whole entry, read-only. use: it will be read wholly, and is marked as used. *why NULL: there is none. The caller
 * unmaps. */
bool folder_map(ctx *c, folder *f, const char *name, bool use, bytes *out, const char **why);
/* the entry used last whose name has the same n characters in front; NULL */
const char *folder_like(ctx *c, const folder *f, const char *name, size_t n);
/* The parts one after the other, each from a multiple of `align` on (a power of two); map: if not NULL, the entry as
 * it is then. */
bool folder_write(ctx *c, folder *f, const char *name, const bytes *parts, uint32_t n, size_t align, bytes *map,
                  const char **why);
void folder_close(folder *f);
/* ---- cache_key.c ----------------------------------------------------------------------------- */
/* All that the code depends on, a line `WHAT VALUE` for each; the last ones are about the model's contents, whose
 * digest goes to model. The files that it depends on are mapped in the contexts of the model and of c.
 * NULL: this compilation is not one to keep. */
const char *cache_key(ctx *c, const ek_model *m, const pipe_opts *o, uint8_t model[32]);
/* ---- cache_entry.c --------------------------------------------------------------------------- */
typedef struct cache {
  ctx *c;               /* context of the compilation */
  ctx *model;           /* context of the model */
  folder f;             /* where entries lie */
  const char *text;     /* cache_key's */
  uint8_t key[32];      /* its digest */
  const char *name;     /* name of the entry's file: 8 bytes of the model's digest, 24 of the key */
  pthread_mutex_t lock; /* guards objects */
  bytes *objects;       /* object files of the code; the array and each of them is malloc'ed */
  uint32_t n;           /* number of objects */
  uint32_t cap;         /* places for objects */
  bool incomplete;      /* an object is missing: nothing is stored */
} cache;
/* NULL: no cache for this compilation. c lives at least as long. */
cache *cache_begin(ctx *c, const ek_model *model, const ek_options *o, const pipe_opts *po);
bool cache_load(cache *k, ek_module *m); /* fills in m: description, code, weights, report */
void cache_keep(void *k, bytes object);  /* keeps an object of the code; may be called in any thread */
/* m is complete. True: its weights are the mapped ones afterwards */
bool cache_store(cache *k, pipeline *p, ek_module *m);
void cache_end(cache *k); /* k may be NULL */
#endif
