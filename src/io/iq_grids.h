#pragma once
#include <array>    // for array
#include <cstdint>  // for uint16_t

namespace kirchhoff::io {

/// The code books of ggml's iq types (ggml-common.h: iq2xxs_grid, ...), packed as the gguf Python package packs them:
/// an entry of the iq1 and iq2 grids holds 8 two-bit indices, one of the iq3 grids 4 of four bits (three used), lowest
/// first, into the short tables of values in decode_iq.cc.
extern const std::array<std::uint16_t, 2048> kGridIq1S;
extern const std::array<std::uint16_t, 256> kGridIq2Xxs;
extern const std::array<std::uint16_t, 512> kGridIq2Xs;
extern const std::array<std::uint16_t, 1024> kGridIq2S;
extern const std::array<std::uint16_t, 256> kGridIq3Xxs;
extern const std::array<std::uint16_t, 512> kGridIq3S;

}  // namespace kirchhoff::io
