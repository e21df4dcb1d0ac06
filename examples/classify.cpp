/* Einkorn's C++ interface from start to end: loads an ONNX model, compiles it, and asks it which digits are on pictures.
 *
 *   classify MODEL.onnx PICTURE.pgm...
 *
 * Build against an installed Einkorn:  c++ -std=c++17 classify.cpp -leinkorn -o classify
 */
#include <algorithm>
#include <cstdio>
#include <einkorn/einkorn.hpp>
#include <fstream>
#include <iostream>
#include <string>
#include <vector>

static std::vector<float> read_pgm(const char *path) { /* a text PGM (P2) of 8x8 pixels from 0 to 16 */
  std::ifstream f(path);
  std::string kind;
  int width, height, white;
  if (!(f >> kind >> width >> height >> white) || kind != "P2" || width != 8 || height != 8)
    throw std::runtime_error(std::string(path) + " is no text PGM of 8x8 pixels");
  std::vector<float> pixels(64);
  for (float &p : pixels)
    if (!(f >> p)) throw std::runtime_error(std::string(path) + " ends early");
  return pixels;
}
int main(int argc, char **argv) try {
  if (argc < 3) return std::cerr << "usage: classify MODEL.onnx PICTURE.pgm...\n", 2;
  einkorn::session s;
  einkorn::compiled_module code = s.load(argv[1]).compile();
  einkorn::run run = code.create_run();
  for (int i = 2; i < argc; i++) {
    const std::vector<float> pixels = read_pgm(argv[i]);
    run.set_input("image", pixels.data(), pixels.size(), {1, 1, 8, 8});
    run.execute();
    const einkorn::view<const float> scores = run.output<float>("scores");
    const auto best = std::max_element(scores.begin(), scores.end());
    std::printf("%s: %d (%.1f %%)\n", argv[i], static_cast<int>(best - scores.begin()), 100 * *best);
  }
} catch (const std::exception &e) { return std::cerr << e.what() << "\n", 1; }
