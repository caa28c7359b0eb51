#include "report/PageFiles.h"

#include "dtc/Support/EmbeddedFile.h"
#include "view/Palette.h"

#include <nlohmann/json.hpp>

namespace dtc {

std::span<const EmbeddedFile> reportFiles(); // generated: lib/Report/report/page

namespace {

std::string pageFile(std::string_view name) {
  for (const EmbeddedFile& f : reportFiles())
    if (f.name == name) return std::string(f.text);
  return {};
}

// Text within <script>: no end tag.
std::string inScript(std::string text) {
  for (size_t at = text.find("</"); at != std::string::npos; at = text.find("</", at + 3))
    text.replace(at, 2, "<\\/");
  return text;
}

std::string paletteJson() {
  nlohmann::json tones = nlohmann::json::array();
  for (const ShardTone& t : kShardTones) tones.push_back({t.saturation, t.lightness, t.darkLightness});
  return nlohmann::json{{"axes", kAxisColors}, {"shards", tones}, {"most_shards", kMostShardColors}}.dump();
}

} // namespace

std::string pageOf(const std::string& title, std::span<const char* const> scripts, std::string json) {
  std::string page(pageFile("report.html")), script;
  for (const char* name : scripts) script += pageFile(name);
  constexpr std::string_view kPalette = "/*PALETTE*/{}";
  script.replace(script.find(kPalette), kPalette.size(), paletteJson());
  // The data is last, since it may contain the other marks.
  for (const auto& [mark, text] :
       {std::pair("/*TITLE*/", title), std::pair("/*STYLE*/", pageFile("report.css")),
        std::pair("/*SCRIPT*/", script), std::pair("/*DATA*/", inScript(std::move(json)))})
    if (const size_t at = page.find(mark); at != std::string::npos)
      page.replace(at, std::string_view(mark).size(), text);
  return page;
}

} // namespace dtc
