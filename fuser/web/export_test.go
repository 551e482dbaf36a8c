package web

// NewHandler is for fuzzing without sockets.
var NewHandler = newHandler

// Object is for fuzzing.
var Object = object
