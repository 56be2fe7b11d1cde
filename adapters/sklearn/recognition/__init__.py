"""Recognition of training rows that are passed as held out, by what trees and other members store of them."""
