/* image: machine code as a block of bytes that can be kept in a file and made callable again without LLVM or a linker.
 *
 * image_link puts the objects of codegen/llvm together: code first, then constants and a table of pointers.
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

typedef struct image_extern {
  const char *name;
  void *address;
} image_extern;
extern const image_extern image_externs[]; /* ends with a NULL name */

/* objs: relocatable objects that define everything they refer to, but externs. entries: symbols whose addresses
 * image_entry gives, by number. False: *why says what cannot be put into an image. */
bool image_link(ctx *c, const bytes *objs, uint32_t n, const char *const *entries, uint32_t n_entries, bytes *out,
                const char **why);

typedef struct image image;
image *image_load(bytes block, const char **why); /* NULL: damaged, or no memory. The block is not needed afterwards */
void *image_entry(const image *i, uint32_t entry);
size_t image_bytes(const image *i);
void image_free(image *i);
#endif
