package web

// NewHandler is for fuzzing without sockets.
var NewHandler = newHandler
