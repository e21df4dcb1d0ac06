/* How does a PNG file become pixels? By libpng, with its memory in the arena, so that an error unwinds from inside the
 * library and nothing leaks. Depths become 8 bits, palettes colours, and transparency is left out. */
#include "data/image.h"
#ifdef EK_HAVE_PNG
#include <png.h>
#include <string.h>

typedef struct input {
  ctx *c;
  const char *path; /* for messages */
  bytes file;       /* what is not read yet */
} input;
static _Noreturn void on_error(png_structp p, png_const_charp text) {
  const input *in = png_get_error_ptr(p);
  ctx_fail(in->c, E_IO, "%s: the PNG file is damaged: %s", in->path, text);
}
static void on_warning(png_structp p, png_const_charp text) { (void)p, (void)text; }
static png_voidp take(png_structp p, png_alloc_size_t n) { return arena_alloc(png_get_mem_ptr(p), n); }
static void give(png_structp p, png_voidp memory) { (void)p, (void)memory; }
static void pull(png_structp p, png_bytep out, size_t n) {
  input *in = png_get_io_ptr(p);
  if (n > in->file.n) png_error(p, "it is truncated");
  memcpy(out, in->file.p, n);
  in->file.p += n, in->file.n -= n;
}
image read_png(arena *a, const char *path, bytes file) {
  input in = {arena_ctx(a), path, file};
  png_structp p = png_create_read_struct_2(PNG_LIBPNG_VER_STRING, &in, on_error, on_warning, a, take, give);
  if (!p) ctx_fail(in.c, E_MEMORY, "%s: libpng does not start", path);
  png_infop info = png_create_info_struct(p);
  png_set_read_fn(p, &in, pull);
  png_set_user_limits(p, IMAGE_MAX_SIDE, IMAGE_MAX_SIDE);
  png_set_chunk_malloc_max(p, 8 << 20);
  png_read_info(p, info);
  image m = image_new(a, path, png_get_image_height(p, info), png_get_image_width(p, info),
                      png_get_color_type(p, info) & PNG_COLOR_MASK_COLOR ? 3 : 1);
  png_set_scale_16(p);
  png_set_palette_to_rgb(p);
  png_set_expand_gray_1_2_4_to_8(p);
  png_set_strip_alpha(p);
  const int passes = png_set_interlace_handling(p);
  png_read_update_info(p, info);
  const size_t row = (size_t)m.width * m.channels;
  if (png_get_rowbytes(p, info) != row) png_error(p, "its rows have an unexpected size");
  for (int pass = 0; pass < passes; pass++)
    for (size_t y = 0; y < m.height; y++) png_read_row(p, m.pixels + y * row, NULL);
  png_read_end(p, NULL);
  return m;
}
#else
image read_png(arena *a, const char *path, bytes file) {
  (void)file;
  ctx_fail(arena_ctx(a), E_UNSUPPORTED, "%s is a PNG file, and this program was built without PNG (libpng)", path);
}
#endif
