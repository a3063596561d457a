#pragma once
#include <cstdint>  // for uint64_t
#include <memory>   // for shared_ptr
#include <span>     // for span
#include <vector>   // for vector

#include "kirchhoff/model/model_format.h"
#include "kirchhoff/train/training_config.h"

namespace kirchhoff::train {

/// The weights of a model that change: one array, and a Model that reads it.
class Parameters {
 public:
  /// One weight of the model in the array.
  struct Entry {
    WeightShape shape;
    Index offset = 0;
    bool decays = false;  ///< weight decay applies: matrices
    bool trained = true;
  };

  /// Initial weights: see TrainingOptions. The same for any number of threads. Error{usage}: sinusoidal without
  /// position vectors, or with an odd d_model.
  Parameters(const ModelFormat& format, const TrainingOptions& options);
  Parameters(const Parameters&) = delete;
  Parameters& operator=(const Parameters&) = delete;

  const std::vector<Entry>& entries() const { return entries_; }
  /// All of it: entries lie one behind the other, each from a multiple of 16 on; what is between them is 0.
  std::span<float> values() { return values_->values(); }
  std::span<const float> values() const { return std::as_const(*values_).values(); }
  std::span<const float> of(const Entry& entry) const {
    return values().subspan(static_cast<std::size_t>(entry.offset), static_cast<std::size_t>(entry.shape.size()));
  }
  Index count() const;  ///< numbers that are trained

  /// Reads the array: matrices as it is at any moment, vectors as it was at the last publish().
  const Model& model() const { return model_; }
  /// To be called after the array has changed.
  void publish();
  /// Writes a directory that load_model opens.
  void write(const std::string& directory, DType dtype = DType::f32) const;

 private:
  void initialise(const TrainingOptions& options);

  ModelFormat format_;
  std::vector<Entry> entries_;
  std::shared_ptr<Tensor> values_;
  Model model_;
};

}  // namespace kirchhoff::train
