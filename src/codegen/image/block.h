/* Private to image: how the block is laid out. head | code, data (the memory image, each from a page's beginning) |
 * fixups | entries | names of externs, each with its NUL. */
#ifndef EK_IMAGE_BLOCK_H
#define EK_IMAGE_BLOCK_H
#include "codegen/image/image.h"

enum { IMAGE_MAGIC = 0x314d4945, IMAGE_PAGE = 4096 };
typedef struct image_head {
  uint32_t magic;   /* IMAGE_MAGIC */
  uint32_t code;    /* bytes of code, a multiple of IMAGE_PAGE */
  uint32_t data;    /* bytes of data, a multiple of IMAGE_PAGE */
  uint32_t fixups;  /* number of fixups */
  uint32_t entries; /* number of entries */
  uint32_t names;   /* bytes of the names of externs */
  uint64_t spare;   /* 0 */
} image_head;
typedef struct image_fixup { /* the 8 bytes at `at` become the address of the block, or of an extern, plus `add` */
  uint32_t at;               /* offset in the memory image */
  uint32_t from;             /* 0: the block; else 1 + where the extern's name begins */
  int64_t add;               /* added to the address */
} image_fixup;

/* v rounded up to a multiple of a */
static inline uint64_t image_align(uint64_t v, uint64_t a) { return (v + a - 1) / a * a; }
const image_extern *image_extern_of(const char *name); /* NULL: there is none of that name */

/* Objects joined, before they are written as a block or as a shared library. */
typedef struct image_joined {
  uint8_t *mem;              /* the memory image: code, then data */
  uint64_t code;             /* bytes of code, a multiple of IMAGE_PAGE */
  uint64_t data;             /* bytes of data, which nothing writes after loading; a multiple of IMAGE_PAGE */
  const image_fixup *fixups; /* addresses that the loader fills in */
  uint32_t n_fixups;         /* how many there are */
  sbuf names;                /* names of the externs among them, each with its NUL */
  uint32_t *entries;         /* offset of each entry in the code */
} image_joined;
/* any_extern: names that no object defines may be any; false: only those of image_externs. False: *why says what is
 * in the way. All that comes out is in the context's memory. */
bool image_join(ctx *c, image_parts p, bool any_extern, image_joined *out, const char **why);
#endif
