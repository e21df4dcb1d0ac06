/* Private to data: pixels of images. */
#ifndef EK_DATA_IMAGE_H
#define EK_DATA_IMAGE_H
#include "data/data_in.h"

enum { IMAGE_MAX_SIDE = 1 << 16, IMAGE_MAX_PIXELS = 1 << 26 }; /* larger images are refused */
typedef struct image {
  uint32_t height, width; /* pixels */
  uint32_t channels;      /* 1: gray, 3: red, green, blue */
  uint8_t *pixels;        /* row by row, the channels of a pixel side by side */
} image;
image image_new(arena *a, const char *path, uint32_t height, uint32_t width, uint32_t channels);
/* In an arena; the context has the errors: E_IO the file is damaged, E_UNSUPPORTED. */
image read_png(arena *a, const char *path, bytes file);
image read_jpeg(arena *a, const char *path, bytes file);
image read_image(arena *a, const char *path); /* whichever it is */
image image_converted(arena *a, const image *m, uint32_t channels);
/* Bilinear: each pixel is the mean of those around its place, weighted by a triangle whose half width is one pixel of
 * the coarser of both grids, so that a smaller image has no aliasing. */
image image_resized(arena *a, const image *m, uint32_t height, uint32_t width);
#endif
