#pragma once
#include <span>  // for span

#include "kirchhoff/base/types.h"

namespace kirchhoff::train {

/// One step of AdamW (Loshchilov & Hutter 2019, arXiv:1711.05101; torch.optim.AdamW's order of operations):
///
///   m = beta1 m + (1 - beta1) g,   v = beta2 v + (1 - beta2) g^2
///   w = w - lr weight_decay w - lr (m / (1 - beta1^t)) / (sqrt(v / (1 - beta2^t)) + eps)
struct AdamWStep {
  double learning_rate = 1e-3, beta1 = 0.9, beta2 = 0.95, epsilon = 1e-8, weight_decay = 0.0;
  Index t = 1;                  ///< this step's number, from 1
  double gradient_scale = 1.0;  ///< gradients are multiplied by it first: 1 / batch, clipping
};

/// Updates `weights` and the two moments in place, in float32; element by element, so the same for any number of
/// threads. All spans are equally long.
void adamw(const AdamWStep& step, std::span<float> weights, std::span<const float> gradients, std::span<float> first,
           std::span<float> second);
/// The same in double, for tests.
void adamw(const AdamWStep& step, std::span<double> weights, std::span<const double> gradients, std::span<double> first,
           std::span<double> second);

/// sum += terms[0] + terms[1] + ..., element by element in that order. Returns the sum of the results' squares, in
/// double over fixed blocks. The same for any number of threads.
double add_up(std::span<float> sum, std::span<const std::span<const float>> terms);

}  // namespace kirchhoff::train
