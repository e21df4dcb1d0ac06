/* Private to image: how the block is laid out. head | code, data (the memory image, each from a page's beginning) |
 * fixups | entries | names of externs, each with its NUL. */
#ifndef EK_IMAGE_BLOCK_H
#define EK_IMAGE_BLOCK_H
#include "codegen/image/image.h"

enum { IMAGE_MAGIC = 0x314d4945, IMAGE_PAGE = 4096 };
typedef struct image_head {
  uint32_t magic, code, data;      /* bytes of memory, multiples of IMAGE_PAGE */
  uint32_t fixups, entries, names; /* how many, how many, bytes */
  uint64_t spare;
} image_head;
typedef struct image_fixup { /* the 8 bytes at `at` become the address of the block, or of an extern, plus `add` */
  uint32_t at;
  uint32_t from; /* 0: the block; else 1 + where the extern's name begins */
  int64_t add;
} image_fixup;
#endif
