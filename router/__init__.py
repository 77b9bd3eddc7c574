"""The gateway: takes tasks by gRPC, decides the region, stores them there, answers for them."""
