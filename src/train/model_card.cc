#include "train/model_card.h"

#include <algorithm>   // for any_of, max
#include <functional>  // for function

#include "kirchhoff/base/error.h"
#include "kirchhoff/base/thousands.h"

namespace kirchhoff::train {
namespace {

std::string architecture(const ModelConfig& c) {
  std::string text = fmt::format("{} layer{}, {}, d_model {}", c.n_layers, c.n_layers == 1 ? "" : "s",
                                 c.attn_only ? "attention only" : fmt::format("with MLPs of {}", c.d_mlp), c.d_model);
  if (c.n_layers > 0) text += fmt::format(", {} heads of {} a layer", c.n_heads, c.d_head);
  return text;
}

/// What the model read, as training.json says it.
std::string data_lines(const Json& data) {
  if (data.contains("task")) return fmt::format("Sequences of the task `{}`.\n", data["task"].dump());
  std::string text = "| file | bytes | sha256 |\n| --- | ---: | --- |\n";
  for (const Json& file : data.value("files", Json::array()))
    text += fmt::format("| {} | {} | `{}` |\n", file.value("name", ""), thousands(file.value("bytes", Index{0})),
                        file.value("sha256", ""));
  return text + fmt::format("\n{} tokens in {} documents; vocabulary of {}, byte-level BPE.\n",
                            thousands(data.value("tokens", Index{0})), thousands(data.value("documents", Index{0})),
                            thousands(data.value("vocabulary", Index{0})));
}

using Column = std::function<std::optional<double>(const HistoryRecord&)>;

/// Whether a column has a number in any record.
bool occurs(const History& history, const Column& column) {
  return std::any_of(history.records.begin(), history.records.end(),
                     [&](const HistoryRecord& record) { return column(record).has_value(); });
}

// Of a task what it determines counts: the other tokens are random, and how they are spread says nothing.
std::optional<double> held_out_loss(const HistoryRecord& record) {
  if (!record.evaluation) return std::nullopt;
  return record.evaluation->task ? record.evaluation->task->loss : record.evaluation->loss.value;
}
std::optional<double> accuracy(const HistoryRecord& record) {
  if (!record.evaluation || !record.evaluation->task) return std::nullopt;
  return record.evaluation->task->accuracy;
}
std::optional<double> icl_of(const HistoryRecord& record) {
  if (!record.evaluation || !record.evaluation->icl || record.evaluation->task) return std::nullopt;
  return record.evaluation->icl->score.value;
}

std::string loss_lines(const History& history) {
  const std::pair<const char*, Column> columns[] = {{"training loss", [](const HistoryRecord& r) { return r.loss; }},
                                                    {"held-out loss", held_out_loss},
                                                    {"ICL score", icl_of},
                                                    {"accuracy", accuracy}};
  std::string text = "| step | tokens |", rule = "| ---: | ---: |";
  for (const auto& [title, column] : columns) {
    if (!occurs(history, column)) continue;
    text += fmt::format(" {} |", title);
    rule += " ---: |";
  }
  text += "\n" + rule + "\n";
  // The first, the last, and about eight between them.
  const std::size_t count = history.records.size(), stride = std::max<std::size_t>(1, count / 8);
  for (std::size_t i = 0; i < count; ++i) {
    if (i % stride != 0 && i + 1 != count) continue;
    const HistoryRecord& record = history.records[i];
    text += fmt::format("| {} | {} |", thousands(record.step), thousands(record.tokens));
    for (const auto& [title, column] : columns) {
      if (!occurs(history, column)) continue;
      const std::optional<double> value = column(record);
      text += value ? fmt::format(" {:.3f} |", *value) : std::string(" – |");
    }
    text += "\n";
  }
  return text;
}

constexpr std::string_view kLoading = R"(```sh
kirchhoff explain DIRECTORY "a text"
```

```python
import json
from safetensors.torch import load_file
from transformer_lens import HookedTransformer, HookedTransformerConfig  # before 4.0
from transformers import AutoTokenizer

config = json.load(open("DIRECTORY/config.json"))
known = HookedTransformerConfig.__dataclass_fields__
model = HookedTransformer(
    HookedTransformerConfig(**{key: value for key, value in config.items() if key in known}),
    tokenizer=AutoTokenizer.from_pretrained("DIRECTORY"))
model.load_state_dict(load_file("DIRECTORY/model.safetensors"), strict=False)  # masks are TransformerLens's own
```
)";

}  // namespace

std::string model_card(const Json& facts, const Parameters& parameters, const History& history) {
  const ModelConfig& config = parameters.model().config;
  const Json& data = facts["data"];
  const std::string licence = facts.value("licence", "");
  const Index last = history.records.empty() ? 0 : history.records.back().tokens;
  std::string card = "---\nlibrary_name: kirchhoff\ntags: [interpretability]\n---\n";
  card += fmt::format("# A transformer of {}\n\n", architecture(config));
  card += fmt::format("{} trained parameters. Trained with `{}`.\n\n", thousands(parameters.count()),
                      facts.value("command", "kirchhoff train"));
  card += "## Data\n\n" + data_lines(data);
  card += fmt::format("\nLicence of the data: {}.\n\n", licence.empty() ? "not stated" : licence);
  card += fmt::format("## Training\n\n{} tokens read", thousands(last));
  if (const Index epoch = data.value("epoch_tokens", Index{0}); epoch > 0)
    card += fmt::format(", {:.2f} times the text", static_cast<double>(last) / static_cast<double>(epoch));
  card += fmt::format(".\n\n```json\n{}\n```\n\n", facts["training"].dump(2));
  card += "Losses in nats per token";
  if (occurs(history, icl_of))
    card +=
        "; the in-context-learning score is the loss of late tokens minus that of early ones (negative: it learns in "
        "context; `history.jsonl` has the bands)";
  if (data.contains("task")) card += "; loss and accuracy are those of the tokens that the task determines";
  card += ".\n\n";
  card += loss_lines(history);
  const bool lens = !facts["model"].contains("model_type");
  card += "\n## Use\n\n";
  if (lens && config.smeared_keys)
    card +=
        "`kirchhoff explain DIRECTORY \"a text\"` and every other command. TransformerLens has no smeared keys: the "
        "weights load there into another model.\n";
  else
    card += lens ? std::string(kLoading)
                 : "The directory loads with `transformers` (`AutoModelForCausalLM.from_pretrained`) and with "
                   "`kirchhoff explain DIRECTORY \"a text\"`.\n";
  return card;
}

}  // namespace kirchhoff::train
