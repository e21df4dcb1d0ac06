/* How does a JPEG file become pixels? By libjpeg. Its errors unwind to the frame of read_jpeg, which gives the
 * library's memory back. What libjpeg only warns of is an error where pixels are missing. */
#include "data/image.h"
#ifdef EK_HAVE_JPEG
#include <stdio.h>
#include <jpeglib.h>
#include <jerror.h>

/* A progressive file may have so many scans that each of its bytes costs a pass over the image. */
enum { MAX_SCANS = 500 };
typedef struct reader {
  struct jpeg_error_mgr errors;
  struct jpeg_progress_mgr progress;
  struct jpeg_decompress_struct jpeg;
  arena *a;
  const char *path; /* for messages */
  bytes file;
  image m;
} reader;
static _Noreturn void on_error(j_common_ptr j) {
  const reader *r = j->client_data;
  char text[JMSG_LENGTH_MAX];
  j->err->format_message(j, text);
  ctx_fail(arena_ctx(r->a), E_IO, "%s: the JPEG file is damaged: %s", r->path, text);
}
static void on_message(j_common_ptr j, int level) {
  const int code = j->err->msg_code;
  if (level < 0 && (code == JWRN_JPEG_EOF || code == JWRN_HIT_MARKER || code == JWRN_HUFF_BAD_CODE ||
                    code == JWRN_MUST_RESYNC || code == JWRN_BOGUS_PROGRESSION || code == JWRN_ARITH_BAD_CODE))
    on_error(j);
}
static void on_progress(j_common_ptr j) {
  const reader *r = j->client_data;
  if (r->jpeg.input_scan_number > MAX_SCANS)
    ctx_fail(arena_ctx(r->a), E_IO, "%s: the JPEG file has more than %d scans", r->path, (int)MAX_SCANS);
}
static void decode(reader *r) {
  struct jpeg_decompress_struct *j = &r->jpeg;
  jpeg_create_decompress(j);
  j->progress = &r->progress;
  jpeg_mem_src(j, r->file.p, r->file.n);
  jpeg_read_header(j, TRUE);
  const J_COLOR_SPACE space = j->jpeg_color_space;
  if (space == JCS_CMYK || space == JCS_YCCK)
    ctx_fail(arena_ctx(r->a), E_UNSUPPORTED, "%s: a JPEG file in CMYK; gray and RGB are read", r->path);
  j->out_color_space = space == JCS_GRAYSCALE ? JCS_GRAYSCALE : JCS_RGB;
  r->m = image_new(r->a, r->path, j->image_height, j->image_width, space == JCS_GRAYSCALE ? 1 : 3);
  jpeg_start_decompress(j);
  while (j->output_scanline < j->output_height) {
    JSAMPROW row = r->m.pixels + (size_t)j->output_scanline * r->m.width * r->m.channels;
    jpeg_read_scanlines(j, &row, 1);
  }
  jpeg_finish_decompress(j);
}
image read_jpeg(arena *a, const char *path, bytes file) {
  reader *r = NEW(a, reader);
  volatile bool unwound = false;
  r->a = a, r->path = path, r->file = file;
  r->jpeg.err = jpeg_std_error(&r->errors);
  r->jpeg.client_data = r;
  r->errors.error_exit = on_error, r->errors.emit_message = on_message;
  r->progress.progress_monitor = on_progress;
  CTX_TRY(arena_ctx(a)) { decode(r); }
  CTX_CATCH { unwound = true; }
  jpeg_destroy_decompress(&r->jpeg);
  if (unwound) ctx_unwind(arena_ctx(a));
  return r->m;
}
#else
image read_jpeg(arena *a, const char *path, bytes file) {
  (void)file;
  ctx_fail(arena_ctx(a), E_UNSUPPORTED, "%s is a JPEG file, and this program was built without JPEG (libjpeg)", path);
}
#endif
