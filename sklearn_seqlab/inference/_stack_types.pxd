# cython: language_level=3
"""What the recursions of the stack engine read, write and work in; see ``_stack_inside.pxi``."""


cdef struct Stack:
    # the admissible prefixes, level by level
    Py_ssize_t n_levels
    Py_ssize_t segment_level        # m: the level whose segments have explicit durations
    Py_ssize_t n_prefixes
    Py_ssize_t n_stacks             # prefixes of the last level
    Py_ssize_t n_leaves             # prefixes of level m
    Py_ssize_t max_duration
    bint has_tail
    bint persists                   # a last-level state below m may go on without a boundary
    const Py_ssize_t *cut           # (n_levels + 1,) prefixes of level q are cut[q]:cut[q + 1]
    const Py_ssize_t *parent        # (n_prefixes,)
    const Py_ssize_t *begin         # (n_prefixes,) first child
    const Py_ssize_t *end           # (n_prefixes,)
    const Py_ssize_t *block         # (n_prefixes,) where the moves among the children start in a row of `move`
    const Py_ssize_t *leaf          # (n_stacks,) prefix of level m of a stack, counted from cut[m]
    # scores, lifted into the algebra; a stride of 0 means that all rows share
    const double *step              # (n_rows, n_stacks), nats
    const double *start             # (., n_prefixes) starts as first child
    const double *stop              # (., n_prefixes) ends as last child
    const double *move              # (., n_moves)
    const double *enter             # (., edge_stride) is moved into at this row, beside `move`
    const double *leave             # (., edge_stride) is moved out of after this row
    const double *first             # (., first_stride) beside `start`
    const double *last              # (., last_stride) beside `stop`
    const double *duration          # (., max_duration, n_leaves) of the segment that starts at this row
    const double *duration_up       # the same for the outside pass: not rounded down to nothing
    const double *tail              # (n_leaves,) per step beyond max_duration
    Py_ssize_t start_stride
    Py_ssize_t stop_stride
    Py_ssize_t move_stride
    Py_ssize_t edge_stride          # these three: how many prefixes have such scores, those of the first levels
    Py_ssize_t first_stride
    Py_ssize_t last_stride
    Py_ssize_t duration_stride
    const signed char *lowest       # (n_rows,) level that may move at the boundary before a row, or NULL
    const signed char *highest      # (n_rows,)
    # filled by the forward pass, (n_rows, .)
    double *local                   # n_stacks: step, divided by its gauge
    double *started                 # cut[m + 1]
    double *ended                   # cut[m + 1]
    double *tails                   # n_stacks: open beyond max_duration after a row
    # workspaces
    double *ring                    # (max_duration, n_prefixes) open segments, a queue
    Py_ssize_t *live                # (max_duration,) their first rows
    double *up                      # (n_prefixes,)
    double *down                    # (n_prefixes,)
    double *moved                   # (n_prefixes,)
    double *before                  # (n_prefixes,)
    double *through                 # (n_prefixes,)
    double *prefix                  # (n_leaves,) what all open segments are still to be multiplied by
    double *open_mass               # (n_leaves,) of all open segments together, for the gauge
    # workspaces of the backward pass
    double *outer_end               # (n_prefixes,)
    double *outer_start             # (n_prefixes,)
    double *closing                 # (longest + 1, n_leaves)
    double *outer_tail              # (longest + 1, n_stacks)
    double *inner                   # (n_stacks,)
    double *row_ended               # (max_duration, n_prefixes)
    double *row_started             # (max_duration, n_prefixes)
    double *turned                  # (n_moves,) shared moves with rows and columns exchanged, or NULL
    double *least_local             # (longest + 1,) see `least_of`
    double *least_closing           # (longest + 1,)
    double least_duration
    # workspaces of the way back along one configuration
    double *candidates              # (longest + n_prefixes + 1,)
    double *outer_rows              # (longest, n_prefixes)


cdef struct Shares:
    # probabilities, weighted, in the shapes of the scores; added to
    double *step
    double *start
    double *stop
    double *move
    double *enter
    double *leave
    double *first
    double *last
    double *duration
    double *tail
    double unit                     # what `share` divides by: mass or nats
    double weight
    double inside                   # mass of all configurations, of the inside pass
    double outside                  # the same, of the outside pass
