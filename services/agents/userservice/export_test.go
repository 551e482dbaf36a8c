package userservice

// Hasten has services settle at once, for tests.
func Hasten() { settle = 0 }
