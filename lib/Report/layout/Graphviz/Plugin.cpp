// The plugin dtc-graphviz: the layout `dot` of Graphviz, for nodes of given sizes. Text is not measured and nothing is
// rendered, so that only two of its libraries are needed.
#include "../GraphvizPlugin.h"

#include <gvc.h>
#include <gvplugin.h>

#include <string>
#include <vector>

extern "C" {
extern gvplugin_library_t gvplugin_dot_layout_LTX_library; // of libgvplugin_dot_layout, declared in no header
[[gnu::visibility("default")]] bool dtcGraphvizLayout(dtc::GraphvizJob* job);
}

namespace {

constexpr double kInch = 72; // points, which are the page's pixels

// The library's interface takes strings that it does not change.
char* text(const char* words) { return const_cast<char*>(words); }

void set(void* of, const char* name, const std::string& value) {
  agsafeset(of, text(name), text(value.c_str()), text(""));
}

void setUp(Agraph_t* g, size_t numNodes) {
  set(g, "splines", numNodes > 600 ? "line" : "spline");
  set(g, "ranksep", "0.35");
  set(g, "nodesep", "0.25");
  if (numNodes <= 100) return;
  set(g, "nslimit", "3"); // bounds the time of large graphs
  set(g, "nslimit1", "3");
  set(g, "mclimit", "0.3");
}

void readEdge(Agedge_t* e, dtc::GraphvizJob& job, double top, dtc::GraphvizEdge& out, size_t& points) {
  const splines* s = ED_spl(e);
  out.firstPoint = points;
  if (!s || s->size == 0) return;
  const bezier& b = s->list[0];
  for (int i = 0; i < b.size; ++i) job.point(job.self, b.list[i].x, top - b.list[i].y), ++points;
  if (b.eflag) { // the line to the tip of the arrow
    for (int i = 0; i < 3; ++i) job.point(job.self, b.ep.x, top - b.ep.y);
    points += 3;
  }
  out.numPoints = points - out.firstPoint;
}

} // namespace

bool dtcGraphvizLayout(dtc::GraphvizJob* job) {
  static lt_symlist_t builtins[] = {{"gvplugin_dot_layout_LTX_library", &gvplugin_dot_layout_LTX_library},
                                    {nullptr, nullptr}};
  GVC_t* context = gvContextPlugins(builtins, 0);
  agseterr(AGMAX);
  Agraph_t* g = agopen(text("g"), Agdirected, nullptr);
  setUp(g, job->numNodes);
  std::vector<Agnode_t*> nodes;
  std::vector<Agedge_t*> edges;
  for (size_t n = 0; n < job->numNodes; ++n) {
    Agnode_t* node = agnode(g, text(std::to_string(n).c_str()), 1);
    set(node, "shape", "box");
    set(node, "fixedsize", "true");
    set(node, "label", "");
    set(node, "width", std::to_string(job->nodes[n].width / kInch));
    set(node, "height", std::to_string(job->nodes[n].height / kInch));
    nodes.push_back(node);
  }
  for (size_t e = 0; e < job->numEdges; ++e)
    edges.push_back(agedge(g, nodes[job->edges[e].from], nodes[job->edges[e].to], nullptr, 1));
  const bool done = gvLayout(context, g, "dot") == 0;
  if (done) {
    const boxf box = GD_bb(g);
    job->width = box.UR.x, job->height = box.UR.y;
    for (size_t n = 0; n < nodes.size(); ++n)
      job->nodes[n].x = ND_coord(nodes[n]).x, job->nodes[n].y = box.UR.y - ND_coord(nodes[n]).y;
    size_t points = 0;
    for (size_t e = 0; e < edges.size(); ++e) readEdge(edges[e], *job, box.UR.y, job->edges[e], points);
    gvFreeLayout(context, g);
  }
  agclose(g);
  gvFreeContext(context);
  return done;
}
