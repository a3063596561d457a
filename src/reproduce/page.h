#pragma once
#include <map>      // for map
#include <string>   // for string
#include <utility>  // for pair
#include <vector>   // for vector

#include "kirchhoff/base/thousands.h"
#include "kirchhoff/draw/figure.h"
#include "kirchhoff/reproduce/chain.h"

namespace kirchhoff::reproduce {

/// The records of a chain's stages, by name.
using Records = std::map<std::string, Json>;
const Json& result_of(const Records& records, const std::string& stage);

/// A page of Markdown with its figures, written at once.
class Page {
 public:
  void title(const std::string& text);
  void heading(const std::string& text);
  void paragraph(const std::string& text);
  void list(const std::vector<std::string>& lines);
  /// A table; columns whose title begins with '>' are aligned to the right.
  void table(const std::vector<std::string>& titles, const std::vector<std::vector<std::string>>& rows);
  /// NAME.svg, shown on the page with its title.
  void figure(const std::string& name, const draw::Figure& figure);

  /// DIRECTORY/README.md, the figures, and results/STAGE.json of the published stages.
  void write(const std::string& directory, const Chain& chain, const Records& records) const;

 private:
  std::string text_;
  std::vector<std::pair<std::string, std::string>> figures_;  // file, bytes
};

/// Numbers as the pages print them.
std::string fixed(double value, int digits);
/// "0.0" with a sign; "–" of null.
std::string signed_number(const Json& value, int digits);
std::string number(const Json& value, int digits);
/// "12:34 min".
std::string duration(double seconds);
/// A token as code with its white space visible, for a cell of a table.
std::string token_cell(const Json& token);
/// The same without Markdown, for figures.
std::string token_label(const Json& token);

/// What stands around a figure of a chain.
draw::Caption caption_of(const Chain& chain, const std::string& title, std::vector<std::string> notes = {});

/// What is common to all pages: the command, what was trained and how long each stage took.
void describe_chain(Page& page, const Chain& chain, const Records& records);

/// The pages of the two chains.
Page framework_page(const Chain& chain, const Records& records);
Page induction_page(const Chain& chain, const Records& records);

}  // namespace kirchhoff::reproduce
