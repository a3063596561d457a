#pragma once
#include <string>   // for string
#include <utility>  // for pair
#include <vector>   // for vector

#include "kirchhoff/study/result_json.h"
#include "kirchhoff/tensor/tensor.h"

namespace kirchhoff {

/// The lists of objects of a result as CSV (RFC 4180), one row an object. Objects in objects become columns
/// "source.text", a list of words "embed > a0.h1"; null and what an object lacks is an empty field. A list of objects
/// in an object gives a row for each of its entries, with the outer columns repeated ("unnested"); other lists of
/// numbers are left to arrays_of. Several lists of a result stand below each other, told apart by a first column
/// `list`. A result without such lists gives its first matrix of numbers, with the column's index as name ("re", "im"
/// for eigenvalues). `ids` and `provenance` are no lists. Error{usage} if the result holds nothing of this kind.
std::string csv_of(const Json& result);

/// Every number of a result as an array, with the keys on the way as name, for numpy: "pairs.q" is [n] where `pairs` is
/// a list of n objects with a number "q"; lists of lists must have one shape, others are left out. True and false are
/// 1 and 0, null is NaN.
std::vector<std::pair<std::string, TensorF64>> arrays_of(const Json& result);

}  // namespace kirchhoff
