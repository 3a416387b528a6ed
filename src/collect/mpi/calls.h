/* collect/mpi/calls.h - the calls of MPI that send, receive or meet, and what each of their arguments is. Private to this
 * folder. Places count from 1.
 *
 * X(name, number of arguments, what it does, the rest of an mtp__mpi_call). Those of the first list have a second form, with
 * _c, whose counts are MPI_Count.
 */
#ifndef MTP_COLLECT_MPI_CALLS_H
#define MTP_COLLECT_MPI_CALLS_H

#define MTP__SENDS .form = MTP__MPI_SEND, .count = 2, .type = 3, .peer = 4, .tag = 5, .comm = 6
#define MTP__RECEIVES .form = MTP__MPI_RECV, .count = 2, .type = 3, .peer = 4, .tag = 5, .comm = 6
#define MTP__GATHERS                                                                                         \
    .form = MTP__MPI_GATHER, .sent = 1, .in_count = 2, .in_type = 3, .received = 4, .count = 5
#define MTP__SCATTERS .form = MTP__MPI_SCATTER, .sent = 1, .in_count = 2
#define MTP__ALLGATHERS                                                                                      \
    .form = MTP__MPI_ALLGATHER, .sent = 1, .in_count = 2, .in_type = 3, .received = 4, .count = 5
#define MTP__ALLTOALLS .form = MTP__MPI_ALLTOALL, .sent = 1, .in_count = 2
#define MTP__SAMES .form = MTP__MPI_SAME, .sent = 1, .received = 2, .count = 3, .type = 4, .comm = 6

#define MTP__MPI_COUNTED_LIST(X)                                                                             \
    X(Send, 6, "send", MTP__SENDS)                                                                           \
    X(Bsend, 6, "send", MTP__SENDS)                                                                          \
    X(Ssend, 6, "send", MTP__SENDS)                                                                          \
    X(Rsend, 6, "send", MTP__SENDS)                                                                          \
    X(Isend, 7, "send", MTP__SENDS, .request = 7)                                                            \
    X(Ibsend, 7, "send", MTP__SENDS, .request = 7)                                                           \
    X(Issend, 7, "send", MTP__SENDS, .request = 7)                                                           \
    X(Irsend, 7, "send", MTP__SENDS, .request = 7)                                                           \
    X(Send_init, 7, "send", MTP__SENDS, .request = 7, .starts_later = true)                                  \
    X(Bsend_init, 7, "send", MTP__SENDS, .request = 7, .starts_later = true)                                 \
    X(Ssend_init, 7, "send", MTP__SENDS, .request = 7, .starts_later = true)                                 \
    X(Rsend_init, 7, "send", MTP__SENDS, .request = 7, .starts_later = true)                                 \
    X(Recv, 7, "recv", MTP__RECEIVES, .status = 7)                                                           \
    X(Irecv, 7, "recv", MTP__RECEIVES, .request = 7)                                                         \
    X(Recv_init, 7, "recv", MTP__RECEIVES, .request = 7, .starts_later = true)                               \
    X(Sendrecv, 12, "sendrecv", .form = MTP__MPI_SENDRECV, .in_count = 2, .in_type = 3, .peer = 4, .tag = 5, \
      .count = 7, .type = 8, .source = 9, .source_tag = 10, .comm = 11, .status = 12)                        \
    X(Sendrecv_replace, 9, "sendrecv", .form = MTP__MPI_SENDRECV, .in_count = 2, .in_type = 3, .count = 2,   \
      .type = 3, .peer = 4, .tag = 5, .source = 6, .source_tag = 7, .comm = 8, .status = 9)                  \
    X(Bcast, 5, "broadcast", .form = MTP__MPI_SAME, .count = 2, .type = 3, .root = 4, .comm = 5)             \
    X(Ibcast, 6, "broadcast", .form = MTP__MPI_SAME, .count = 2, .type = 3, .root = 4, .comm = 5,            \
      .request = 6)                                                                                          \
    X(Gather, 8, "gather", MTP__GATHERS, .type = 6, .root = 7, .comm = 8)                                    \
    X(Igather, 9, "gather", MTP__GATHERS, .type = 6, .root = 7, .comm = 8, .request = 9)                     \
    X(Gatherv, 9, "gather", MTP__GATHERS, .type = 7, .root = 8, .comm = 9, .out_many = true)                 \
    X(Igatherv, 10, "gather", MTP__GATHERS, .type = 7, .root = 8, .comm = 9, .out_many = true,               \
      .request = 10)                                                                                         \
    X(Scatter, 8, "scatter", MTP__SCATTERS, .in_type = 3, .received = 4, .count = 5, .type = 6, .root = 7,   \
      .comm = 8)                                                                                             \
    X(Iscatter, 9, "scatter", MTP__SCATTERS, .in_type = 3, .received = 4, .count = 5, .type = 6, .root = 7,  \
      .comm = 8, .request = 9)                                                                               \
    X(Scatterv, 9, "scatter", MTP__SCATTERS, .in_type = 4, .received = 5, .count = 6, .type = 7, .root = 8,  \
      .comm = 9, .in_many = true)                                                                            \
    X(Iscatterv, 10, "scatter", MTP__SCATTERS, .in_type = 4, .received = 5, .count = 6, .type = 7,           \
      .root = 8, .comm = 9, .in_many = true, .request = 10)                                                  \
    X(Allgather, 7, "allgather", MTP__ALLGATHERS, .type = 6, .comm = 7)                                      \
    X(Iallgather, 8, "allgather", MTP__ALLGATHERS, .type = 6, .comm = 7, .request = 8)                       \
    X(Allgatherv, 8, "allgather", MTP__ALLGATHERS, .type = 7, .comm = 8, .out_many = true)                   \
    X(Iallgatherv, 9, "allgather", MTP__ALLGATHERS, .type = 7, .comm = 8, .out_many = true, .request = 9)    \
    X(Alltoall, 7, "all_to_all", MTP__ALLTOALLS, .in_type = 3, .received = 4, .count = 5, .type = 6,         \
      .comm = 7)                                                                                             \
    X(Ialltoall, 8, "all_to_all", MTP__ALLTOALLS, .in_type = 3, .received = 4, .count = 5, .type = 6,        \
      .comm = 7, .request = 8)                                                                               \
    X(Alltoallv, 9, "all_to_all", MTP__ALLTOALLS, .in_type = 4, .received = 5, .count = 6, .type = 8,        \
      .comm = 9, .in_many = true, .out_many = true)                                                          \
    X(Ialltoallv, 10, "all_to_all", MTP__ALLTOALLS, .in_type = 4, .received = 5, .count = 6, .type = 8,      \
      .comm = 9, .in_many = true, .out_many = true, .request = 10)                                           \
    X(Alltoallw, 9, "all_to_all", .form = MTP__MPI_ALLTOALL, .comm = 9)                                      \
    X(Ialltoallw, 10, "all_to_all", .form = MTP__MPI_ALLTOALL, .comm = 9, .request = 10)                     \
    X(Reduce, 7, "reduce", .form = MTP__MPI_REDUCE, .sent = 1, .received = 2, .count = 3, .type = 4,         \
      .root = 6, .comm = 7)                                                                                  \
    X(Ireduce, 8, "reduce", .form = MTP__MPI_REDUCE, .sent = 1, .received = 2, .count = 3, .type = 4,        \
      .root = 6, .comm = 7, .request = 8)                                                                    \
    X(Allreduce, 6, "allreduce", MTP__SAMES)                                                                 \
    X(Iallreduce, 7, "allreduce", MTP__SAMES, .request = 7)                                                  \
    X(Scan, 6, "scan", MTP__SAMES)                                                                           \
    X(Iscan, 7, "scan", MTP__SAMES, .request = 7)                                                            \
    X(Exscan, 6, "exscan", MTP__SAMES)                                                                       \
    X(Iexscan, 7, "exscan", MTP__SAMES, .request = 7)                                                        \
    X(Reduce_scatter, 6, "reduce_scatter", .form = MTP__MPI_FOLD, .count = 3, .type = 4, .comm = 6,          \
      .out_many = true)                                                                                      \
    X(Ireduce_scatter, 7, "reduce_scatter", .form = MTP__MPI_FOLD, .count = 3, .type = 4, .comm = 6,         \
      .out_many = true, .request = 7)                                                                        \
    X(Reduce_scatter_block, 6, "reduce_scatter", .form = MTP__MPI_FOLD, .count = 3, .type = 4, .comm = 6)    \
    X(Ireduce_scatter_block, 7, "reduce_scatter", .form = MTP__MPI_FOLD, .count = 3, .type = 4, .comm = 6,   \
      .request = 7)                                                                                          \
    X(Neighbor_allgather, 7, "neighbor_allgather", .comm = 7)                                                \
    X(Ineighbor_allgather, 8, "neighbor_allgather", .comm = 7, .request = 8)                                 \
    X(Neighbor_allgatherv, 8, "neighbor_allgather", .comm = 8)                                               \
    X(Ineighbor_allgatherv, 9, "neighbor_allgather", .comm = 8, .request = 9)                                \
    X(Neighbor_alltoall, 7, "neighbor_alltoall", .comm = 7)                                                  \
    X(Ineighbor_alltoall, 8, "neighbor_alltoall", .comm = 7, .request = 8)                                   \
    X(Neighbor_alltoallv, 9, "neighbor_alltoall", .comm = 9)                                                 \
    X(Ineighbor_alltoallv, 10, "neighbor_alltoall", .comm = 9, .request = 10)                                \
    X(Neighbor_alltoallw, 9, "neighbor_alltoall", .comm = 9)                                                 \
    X(Ineighbor_alltoallw, 10, "neighbor_alltoall", .comm = 9, .request = 10)

#define MTP__MPI_OTHER_LIST(X)                                                                               \
    X(Barrier, 1, "barrier", .form = MTP__MPI_BARRIER, .comm = 1)                                            \
    X(Ibarrier, 2, "barrier", .form = MTP__MPI_BARRIER, .comm = 1, .request = 2)                             \
    X(Probe, 4, "probe", .form = MTP__MPI_RECV, .peer = 1, .tag = 2, .comm = 3, .status = 4)                 \
    X(Mprobe, 5, "probe", .form = MTP__MPI_RECV, .peer = 1, .tag = 2, .comm = 3)                             \
    X(Iprobe, 5, "probe", .form = MTP__MPI_RECV, .peer = 1, .tag = 2, .comm = 3)                             \
    X(Improbe, 6, "probe", .form = MTP__MPI_RECV, .peer = 1, .tag = 2, .comm = 3)                            \
    X(Mrecv, 5, "recv", .form = MTP__MPI_PLAIN)                                                              \
    X(Imrecv, 5, "recv", .form = MTP__MPI_PLAIN)                                                             \
    X(Put, 8, "put", .form = MTP__MPI_PLAIN)                                                                 \
    X(Get, 8, "get", .form = MTP__MPI_PLAIN)                                                                 \
    X(Accumulate, 9, "accumulate", .form = MTP__MPI_PLAIN)                                                   \
    X(Get_accumulate, 12, "accumulate", .form = MTP__MPI_PLAIN)                                              \
    X(Fetch_and_op, 7, "accumulate", .form = MTP__MPI_PLAIN)                                                 \
    X(Win_fence, 2, "fence", .form = MTP__MPI_PLAIN)                                                         \
    X(Win_lock, 4, "lock", .form = MTP__MPI_PLAIN)                                                           \
    X(Win_unlock, 2, "lock", .form = MTP__MPI_PLAIN)                                                         \
    X(Win_lock_all, 2, "lock", .form = MTP__MPI_PLAIN)                                                       \
    X(Win_unlock_all, 1, "lock", .form = MTP__MPI_PLAIN)                                                     \
    X(Win_flush, 2, "flush", .form = MTP__MPI_PLAIN)                                                         \
    X(Win_flush_all, 1, "flush", .form = MTP__MPI_PLAIN)                                                     \
    X(Win_start, 3, "fence", .form = MTP__MPI_PLAIN)                                                         \
    X(Win_complete, 1, "fence", .form = MTP__MPI_PLAIN)                                                      \
    X(Win_post, 3, "fence", .form = MTP__MPI_PLAIN)                                                          \
    X(Win_wait, 1, "fence", .form = MTP__MPI_PLAIN)                                                          \
    X(File_open, 5, "file", .form = MTP__MPI_PLAIN)                                                          \
    X(File_close, 1, "file", .form = MTP__MPI_PLAIN)                                                         \
    X(File_read, 5, "file", .form = MTP__MPI_PLAIN)                                                          \
    X(File_read_all, 5, "file", .form = MTP__MPI_PLAIN)                                                      \
    X(File_read_at, 6, "file", .form = MTP__MPI_PLAIN)                                                       \
    X(File_read_at_all, 6, "file", .form = MTP__MPI_PLAIN)                                                   \
    X(File_write, 5, "file", .form = MTP__MPI_PLAIN)                                                         \
    X(File_write_all, 5, "file", .form = MTP__MPI_PLAIN)                                                     \
    X(File_write_at, 6, "file", .form = MTP__MPI_PLAIN)                                                      \
    X(File_write_at_all, 6, "file", .form = MTP__MPI_PLAIN)
#endif
