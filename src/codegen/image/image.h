/* image: objects joined without a linker: machine code as a block of bytes that can be kept in a file and made callable
 * again, or as a shared library.
 *
 * image_link puts the objects of the emitters together: code first, then constants and a table of pointers.
 * Everything inside refers to everything else relative to itself, so the block runs at any address; what is left
 * to do at loading is to fill in the pointer slots: addresses inside the block, and those of the few C library
 * functions that compiled code may call (image_externs, the only names that are ever looked up).
 * image_load copies the block into memory of its own and makes it executable, never writable and executable at
 * once. It believes nothing that the block says about itself: every offset is checked.
 *
 * Linked are x86-64 ELF objects; for others image_link says why not, and the caller does without an image.
 */
#ifndef EK_IMAGE_H
#define EK_IMAGE_H
#include "base/base.h"

/* A function of the C library that compiled code may call. */
typedef struct image_extern {
  const char *name; /* name of the symbol; NULL: end of the table */
  void *address;    /* its address in this process */
  bool libm;        /* it is in libm; false: in libc */
} image_extern;
extern const image_extern image_externs[]; /* ends with a NULL name */

/* What is joined into an image or a library. */
typedef struct image_parts {
  const bytes *objs;          /* relocatable objects that define everything they refer to, but externs */
  uint32_t n_objs;            /* how many there are */
  const char *const *entries; /* symbols of functions that are found from outside, by their number */
  uint32_t n_entries;         /* how many there are */
} image_parts;
/* A block, for image_load. False: *why says what cannot be put into an image. */
bool image_link(ctx *c, image_parts p, bytes *out, const char **why);

/* What a shared library is called, and the weights that it holds beside the joined objects. */
typedef struct image_library_spec {
  const char *soname;  /* its name for the loader */
  const char *weights; /* symbol of the weights, to which objects may point; NULL: there are none */
  uint64_t n_weights;  /* their bytes */
} image_library_spec;
/* A shared library of x86-64 whose exported functions are the entries: the bytes of the file up to the weights, which
 * belong at *at, a multiple of 4096. Externs are looked for in libc and libm. False: *why says what is in the way. */
bool image_library(ctx *c, image_parts p, image_library_spec s, bytes *head, uint64_t *at, const char **why);

typedef struct image image;
image *image_load(bytes block, const char **why); /* NULL: damaged, or no memory. The block is not needed afterwards */
void *image_entry(const image *i, uint32_t entry);
size_t image_bytes(const image *i);
void image_free(image *i);
#endif
