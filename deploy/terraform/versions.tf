terraform {
  required_version = ">= 1.9" # earlier ones compare no variable with another
  required_providers {
    aws = {
      source  = "hashicorp/aws"
      version = ">= 6.0"
    }
  }
}
