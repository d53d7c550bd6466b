// Graphs of the fake driver: stream capture into an existing graph, nodes, executable graphs. A launch of a graph runs
// its nodes in an order that its edges allow and nothing else suggests: an edge that is missing shows.
typedef struct Node { Op op; struct Node **after; int count, number; } Node;
typedef struct Graph { Node **nodes; int count; } Graph;
typedef struct Capture { Graph *graph; Stream *origin; int invalid, mode; u64 id; pthread_t owner; } Capture;
typedef struct { Graph *graph; Op *ops; int count; Fence *last; } Exec;
typedef struct Run { Op *ops; int **after, *counts, count; Fence *previous, *done; } Run;
typedef struct {
    u64 f; unsigned grid[3], block[3], shared; void **parameters, **extra; u64 kern, context;
} KernelNode;
enum { CAPTURE_UNSUPPORTED = 900, CAPTURE_INVALIDATED = 901, CAPTURE_UNMATCHED = 903, CAPTURE_UNJOINED = 904,
       CAPTURE_ISOLATION = 905, CAPTURED_EVENT = 907, CAPTURE_WRONG_THREAD = 908, ILLEGAL_STATE = 401 };

static __thread Capture *own_capture;  // of this thread, if its mode forbids what could disturb it

// Called first by what a thread may not do while it captures, which is of no use then.
static int unsafe(void) {
    if (own_capture) own_capture->invalid = 1;
    return own_capture ? CAPTURE_UNSUPPORTED : 0;
}

static Node *add_node(Graph *graph, Op op, Node **after, int count) {
    Node *node = calloc(1, sizeof *node);
    node->op = op;
    node->after = malloc((count + 1) * sizeof *after);
    if (count) memcpy(node->after, after, count * sizeof *after);
    node->count = count;
    node->number = graph->count;
    graph->nodes = realloc(graph->nodes, ++graph->count * sizeof *graph->nodes);
    return graph->nodes[graph->count - 1] = node;
}

static void set_tips(Tips *tips, Node **nodes, int count) {
    Node **copy = malloc((count + 1) * sizeof *copy);
    if (count) memcpy(copy, nodes, count * sizeof *copy);
    *tips = (Tips){(void **)copy, count};
}

static int captured(Stream *stream, Op op) {  // instead of `put`, with the lock held
    Capture *capture = stream->capture;
    if (capture->invalid) return CAPTURE_INVALIDATED;
    if (op.kind == FREE) { capture->invalid = 1; return CAPTURE_UNSUPPORTED; }
    Node *node = add_node(capture->graph, op, (Node **)stream->tips.nodes, stream->tips.count);
    set_tips(&stream->tips, &node, 1);
    return 0;
}

static int captured_record(Event *event, Stream *stream) {
    if (stream->capture->invalid) return CAPTURE_INVALIDATED;
    event->capture = stream->capture;
    event->tips = stream->tips;
    return 0;
}

static int captured_wait(Stream *stream, Event *event) {
    if (!event->capture || (stream->capture && stream->capture != event->capture)) {
        stream->capture->invalid = 1;
        return CAPTURE_ISOLATION;
    }
    Node *all[256];
    int count = 0;
    for (int k = 0; k < event->tips.count; k++) all[count++] = event->tips.nodes[k];
    if (stream->capture)
        for (int k = 0; k < stream->tips.count; k++) {
            int known = 0;
            for (int j = 0; j < event->tips.count; j++) known |= event->tips.nodes[j] == stream->tips.nodes[k];
            if (!known) all[count++] = stream->tips.nodes[k];
        }
    else event->capture->origin->joined[event->capture->origin->joined_count++] = stream;
    stream->capture = event->capture;
    set_tips(&stream->tips, all, count);
    return 0;
}

static int is_before(Node *earlier, Node *later) {
    if (earlier == later) return 1;
    for (int k = 0; k < later->count; k++) if (is_before(earlier, later->after[k])) return 1;
    return 0;
}

int cuStreamBeginCaptureToGraph(Stream *s, Graph *graph, Node **after, void *data, size_t count, int mode) {
    static u64 ids;
    if ((u64)s <= 2) return CAPTURE_UNSUPPORTED; /* the legacy stream; the other one is not known here */
    if (s->capture) return ILLEGAL_STATE;
    pthread_mutex_lock(&lock);
    Capture *capture = calloc(1, sizeof *capture);
    *capture = (Capture){graph, s, 0, mode, ++ids, pthread_self()};
    s->capture = capture;
    s->joined_count = 0;
    set_tips(&s->tips, after, count);
    if (mode == 1) own_capture = capture;
    note("capture\n");
    pthread_mutex_unlock(&lock);
    return 0;
}

int cuStreamGetCaptureInfo(Stream *s, int *status, u64 *id, Graph **graph, Node ***tips, void **data, size_t *count) {
    static u64 edges[256];
    Capture *capture = s->capture;
    *status = !capture ? 0 : capture->invalid ? 2 : 1;
    if (*status != 1) return 0;
    if (id) *id = capture->id;
    if (graph) *graph = capture->graph;
    if (tips) *tips = (Node **)s->tips.nodes;
    if (data) *data = edges; /* all of the usual kind */
    if (count) *count = s->tips.count;
    return 0;
}

int cuStreamIsCapturing(Stream *s, int *status) { *status = !s->capture ? 0 : s->capture->invalid ? 2 : 1; return 0; }

int cuStreamEndCapture(Stream *s, Graph **graph) {
    Capture *capture = s->capture;
    *graph = 0;
    if (!capture) return ILLEGAL_STATE;
    if (capture->origin != s) return CAPTURE_UNMATCHED;
    if (capture->mode != 2 && !pthread_equal(capture->owner, pthread_self())) return CAPTURE_WRONG_THREAD;
    int problem = capture->invalid ? CAPTURE_INVALIDATED : 0;
    for (int k = 0; k < s->joined_count; k++) {
        Stream *other = s->joined[k];
        for (int t = 0; t < other->tips.count && !problem; t++) {
            int joined = 0;
            for (int j = 0; j < s->tips.count; j++) joined |= is_before(other->tips.nodes[t], s->tips.nodes[j]);
            if (!joined) problem = CAPTURE_UNJOINED;
        }
        other->capture = 0;
    }
    if (own_capture == capture) own_capture = 0;
    s->capture = 0;
    if (!problem) *graph = capture->graph;
    return problem;
}

int cuGraphCreate(Graph **graph, unsigned flags) { *graph = calloc(1, sizeof **graph); return flags != 0; }
int cuGraphDestroy(Graph *graph) { note("destroy graph\n"); free(graph->nodes); free(graph); return 0; }
int cuGraphGetNodes(Graph *graph, Node **nodes, size_t *count) {
    for (size_t k = 0; nodes && k < *count && k < (size_t)graph->count; k++) nodes[k] = graph->nodes[k];
    *count = graph->count;
    return 0;
}
int cuGraphAddEmptyNode(Node **node, Graph *graph, Node **after, size_t count) {
    *node = add_node(graph, (Op){0, NOTHING}, after, count);
    return 0;
}
int cuGraphAddDependencies(Graph *graph, Node **from, Node **to, void *data, size_t count) {
    for (size_t k = 0; k < count; k++) {
        Node *later = to[k];
        for (int j = 0; j < later->count; j++) if (later->after[j] == from[k]) return 1; /* it is there already */
        if (is_before(later, from[k])) return 1;
        later->after = realloc(later->after, (later->count + 2) * sizeof *later->after);
        later->after[later->count++] = from[k];
    }
    return 0;
}

static Op copied(Op op) {  // an operation of a kernel has its own arguments, which `perform` frees
    if (op.kind < SAXPY || !op.b) return op;
    char *block = malloc(op.n + 1);
    memcpy(block, op.b, op.n);
    op.b = block;
    return op;
}

static int read_kernel(KernelNode *p, Op *op) {
    void **extra = p->extra;
    if (p->parameters || p->block[0] * p->block[1] * p->block[2] > 1024 || !p->f) return 1;
    if (extra && ((u64)extra[0] != 1 || (u64)extra[2] != 2 || extra[4])) return 1;
    Op wanted = {0, p->f, 0, extra ? extra[1] : 0, extra ? *(size_t *)extra[3] : 0};
    *op = copied(wanted);
    return 0;
}
int cuGraphKernelNodeSetParams(Node *node, KernelNode *p) { return node->op.kind < SAXPY || read_kernel(p, &node->op); }
int cuGraphExecKernelNodeSetParams(Exec *exec, Node *node, KernelNode *p) {
    if (!context) return INVALID_CONTEXT;
    if (node->op.kind < SAXPY || node->number >= exec->count || exec->graph->nodes[node->number] != node) return 1;
    pthread_mutex_lock(&lock);
    note("parameters\n");
    int problem = read_kernel(p, &exec->ops[node->number]);
    pthread_mutex_unlock(&lock);
    return problem;
}

int cuGraphInstantiateWithFlags(Exec **made, Graph *graph, unsigned long long flags) {
    if (!context) return INVALID_CONTEXT;
    Exec *exec = *made = calloc(1, sizeof *exec);
    exec->graph = graph;
    exec->count = graph->count;
    exec->ops = calloc(graph->count + 1, sizeof(Op));
    for (int k = 0; k < graph->count; k++) exec->ops[k] = copied(graph->nodes[k]->op);
    note("instantiate:%llu\n", flags);
    return 0;
}
int cuGraphInstantiate(Exec **made, Graph *graph, unsigned long long flags) {
    return cuGraphInstantiateWithFlags(made, graph, flags);
}
int cuGraphExecDestroy(Exec *exec) { note("destroy exec\n"); free(exec->ops); free(exec); return 0; }

int cuGraphLaunch(Exec *exec, Stream *s) {
    if (!context) return INVALID_CONTEXT;
    Run *run = calloc(1, sizeof *run); /* of what it is now: changes are for later launches */
    int count = run->count = exec->count;
    run->ops = calloc(count + 1, sizeof(Op));
    run->after = calloc(count + 1, sizeof(int *));
    run->counts = calloc(count + 1, sizeof(int));
    for (int k = 0; k < count; k++) {
        Node *node = exec->graph->nodes[k];
        run->ops[k] = copied(exec->ops[k]);
        run->after[k] = malloc((node->count + 1) * sizeof(int));
        for (run->counts[k] = 0; run->counts[k] < node->count; run->counts[k]++)
            run->after[k][run->counts[k]] = node->after[run->counts[k]]->number;
    }
    run->previous = exec->last;
    exec->last = run->done = calloc(1, sizeof(Fence));
    LOCKED(note("graph\n"); DO(GRAPH, (char *)run));
}

static void perform_graph(struct Run *run) {  // with the lock held
    static unsigned random = 1;
    char *is_done = calloc(run->count + 1, 1);
    while (run->previous && !run->previous->done && !error) pthread_cond_wait(&changed, &lock);
    for (int left = run->count; left && !error; left--) {
        int ready[1024], count = 0;
        for (int k = 0; k < run->count && count < 1024; k++) {
            int waits = is_done[k];
            for (int j = 0; j < run->counts[k]; j++) waits |= !is_done[run->after[k][j]];
            if (!waits) ready[count++] = k;
        }
        random = random * 1664525 + 1013904223;
        int chosen = ready[(random >> 16) % count];
        perform(&run->ops[chosen]);
        is_done[chosen] = 1;
    }
    run->done->done = 1;
    free(is_done);
}
